// How a pool ends, and what others meet while it, or a group of it, is ending.
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11): ranks are threads here
#include <vector>

#include "absl/base/config.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/test_job.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/observe/observer.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// A pool of one rank whose group takes its time to close: until Unblock.
class GroupPoolEndTest : public ::testing::Test {
 protected:
  void Start(PoolOptions options = {}) {
    job_ = std::make_unique<TestJob>(1, options);
    job_->world().rules[0].finalize_hangs = true;
  }
  void MakeGroup() {
    absl::StatusOr<GroupLease> lease = pool().Acquire(Spec());
    ASSERT_TRUE(lease.ok()) << lease.status();
  }
  static GroupSpec Spec() {
    GroupSpec spec = TestJob::Spec();
    spec.close_timeout = absl::Hours(1);
    return spec;
  }
  void AwaitState(GroupState state) {
    while (pool().LiveGroups().empty() || pool().LiveGroups()[0].state != state) {
      std::this_thread::yield();
    }
  }
  GroupPool& pool() { return job_->pool(0); }
  SessionRecord::Liveness Session() { return job_->server().Sessions().at(0).liveness; }

  std::unique_ptr<TestJob> job_;
};

TEST_F(GroupPoolEndTest, ASecondCloseWaitsForTheFirstAndHasItsResult) {
  Start();
  MakeGroup();
  std::vector<absl::Status> results(3, absl::UnknownError("not set"));
  std::vector<std::thread> closers;
  closers.emplace_back([&] { results[0] = pool().Close(absl::Hours(1)); });
  AwaitState(GroupState::kClosing);
  const absl::Status impatient = pool().Close(absl::Milliseconds(20));
  EXPECT_EQ(impatient.code(), absl::StatusCode::kDeadlineExceeded) << "within its own bound";
  EXPECT_THAT(Message(impatient), HasSubstr("is being closed by another thread"));
  for (int i = 1; i < 3; ++i) {
    closers.emplace_back([&, i] {
      results[i] = pool().Close(absl::Hours(1));
      EXPECT_EQ(Session(), SessionRecord::Liveness::kLeft) << "not before the pool has ended";
    });
  }
  job_->world().Unblock();
  for (std::thread& closer : closers) closer.join();
  for (const absl::Status& result : results) EXPECT_TRUE(result.ok()) << result;
}

TEST_F(GroupPoolEndTest, AnAbortDuringACloseEndsBothWithTheCause) {
  Start();
  job_->world().rules[0].finalize_hangs = false;
  job_->world().rules[0].finalize_blocks = true;  // until it is aborted
  MakeGroup();
  absl::Status closed;
  std::thread closer([&] { closed = pool().Close(absl::Hours(1)); });
  AwaitState(GroupState::kClosing);
  pool().Abort(absl::CancelledError("enough"));
  EXPECT_EQ(Session(), SessionRecord::Liveness::kLeft) << "it returns when the pool has ended";
  closer.join();
  EXPECT_THAT(Message(closed), HasSubstr("enough"));
  EXPECT_EQ(pool().Close(absl::Hours(1)), closed);
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

// L4: the owner says why, the pool says who.
TEST(GroupPoolAbortTest, ThePeersLearnWhoLeftAndWhy) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec());
  ASSERT_TRUE(leases[0].ok() && leases[1].ok());
  job.pool(0).Abort(absl::CancelledError("enough"));
  const absl::Status there = leases[1]->Close();
  EXPECT_EQ(there.code(), absl::StatusCode::kCancelled) << there;
  EXPECT_EQ(Message(there), "rank 0 left: \"enough\"");
}

// L1: a group cannot fail of OK.
TEST(GroupPoolAbortTest, AnAbortWithoutACauseEndsTheGroupAndSaysThatNoneWasGiven) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec());
  ASSERT_TRUE(leases[0].ok() && leases[1].ok());
  job.pool(0).Abort(absl::OkStatus());
  const absl::Status there = leases[1]->Close();
  EXPECT_EQ(there.code(), absl::StatusCode::kAborted) << there;
  EXPECT_EQ(Message(there), "rank 0 left: \"no cause given\"");
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

// Read when its pool is gone.
struct RecordStates final : public Observer {
  void OnTransition(const TransitionEvent& event) override { states[event.group] = event.to; }
  std::map<std::string, GroupState> states;
};

// L1: a spec may be more patient than whoever owns the pool.
TEST_F(GroupPoolEndTest, TheBoundsOfThePoolHoldWhateverTheSpecsSay) {
  PoolOptions options;
  options.close_timeout = absl::Milliseconds(50);
  GroupSpec spec = Spec();
  spec.close_timeout = absl::InfiniteDuration();
  for (const bool aborted : {false, true}) {
    Start(options);
    ASSERT_TRUE(pool().Acquire(spec).ok());
    if (aborted) {
      std::thread closer([&] { EXPECT_FALSE(pool().Close(absl::InfiniteDuration()).ok()); });
      AwaitState(GroupState::kClosing);
      pool().Abort(absl::CancelledError("enough"));
      closer.join();
    } else {
      const absl::Status closed = pool().Close(absl::Milliseconds(50));
      EXPECT_EQ(closed.code(), absl::StatusCode::kDeadlineExceeded) << closed;
      EXPECT_EQ(Message(closed),
                "'train/1' did not close in time: its backend did not finish (seen by rank 0)");
    }
    ASSERT_EQ(pool().LiveGroups().size(), 1u);
    EXPECT_THAT(pool().LiveGroups()[0].residue, HasSubstr("(Finalize never returned) within "));
    job_->world().Unblock();
    job_->AwaitGivenBack();
  }
}

// Calls everything that waits, from the control thread, when group "second" becomes ready.
class CallBack final : public Observer {
 public:
  void OnTransition(const TransitionEvent& event) override {
    if (event.group != "second/1" || event.to != GroupState::kReady) return;
    acquired = pool->Acquire(TestJob::Spec()).status();
    closed = lease->Close();
    reduced = (*lease)->AllReduce(Buffer::Of(value), ReduceOp::kSum);
    work = (*lease)->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);  // does not wait
    pool_closed = pool->Close(absl::Hours(1));
    lease->Abort(absl::CancelledError("from an observer"));
    pool->Abort(absl::CancelledError("too late"));
  }
  GroupPool* pool = nullptr;
  GroupLease* lease = nullptr;
  absl::Status acquired, closed, pool_closed, reduced;
  Work work;
  float value = 1;
};

TEST(GroupPoolObserverTest, WhatWaitsIsRefusedOnTheControlThreadAndAnAbortDoesNotWait) {
  CallBack back;
  PoolOptions options;
  options.observer = &back;
  TestJob job(1, options);
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok()) << lease.status();
  back.pool = &job.pool(0);
  back.lease = &*lease;
  GroupSpec second = TestJob::Spec();
  second.name = "second";
  EXPECT_FALSE(job.pool(0).Acquire(second).ok()) << "the pool was aborted";
  for (const absl::Status& status : {back.acquired, back.closed, back.pool_closed, back.reduced}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(Message(status), HasSubstr("on rank 0's control thread"));
  }
  EXPECT_THAT(Message(back.reduced), HasSubstr("all_reduce of train/1 on rank 0"));
  back.work.Wait().IgnoreError();  // by the abort, or it was faster
  EXPECT_EQ(Message(lease->Close()), "rank 0 left: \"from an observer\"");
  EXPECT_THAT(Message(job.pool(0).Acquire(TestJob::Spec()).status()), HasSubstr("was closed"));
  lease->Release();
  EXPECT_TRUE(job.pool(0).Close(absl::Hours(1)).ok()) << "the pool has still to be ended";
  EXPECT_EQ(job.server().Sessions().at(0).liveness, SessionRecord::Liveness::kLeft);
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

// Destroys the pool when its group has ended.
class Destroy final : public Observer {
 public:
  void OnTransition(const TransitionEvent& event) override {
    if (event.to == GroupState::kAborted) job->DestroyPool(0);
  }
  TestJob* job = nullptr;
};

TEST(GroupPoolObserverDeathTest, APoolThatItsObserverDestroysIsAbortedAndLeavesItsThreads) {
  EXPECT_EXIT(
      {
        Destroy destroy;
        PoolOptions options;
        options.observer = &destroy;
        destroy.job = new TestJob(1, options);  // its threads use it for ever
        absl::StatusOr<GroupLease> lease = destroy.job->pool(0).Acquire(TestJob::Spec());
        lease->Abort(absl::CancelledError("stop"));
        // At once: exit() would end what stays.
        syscall(SYS_exit_group, (*lease)->state() == GroupState::kAborted ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "rank 0 destroys its pool on the pool's control thread");
}

#ifdef ABSL_HAVE_THREAD_SANITIZER
constexpr int kExitedWithThreads = 66;  // which TSan calls a leak
#else
constexpr int kExitedWithThreads = 3;
#endif

// L6: the hook at exit runs on the thread that calls exit, which may be the one it would wait for.
TEST(GroupPoolExitDeathTest, AnExitOnTheControlThreadEndsTheProcess) {
  EXPECT_EXIT(
      {
        absl::StatusOr<ScopedFaults> faults = ScopedFaults::Arm("pool.voting=exit(code=3)");
        TestJob job(1);
        job.pool(0).Acquire(TestJob::Spec("fake")).status().IgnoreError();
        job.pool(0).Acquire(TestJob::Spec("other")).status().IgnoreError();
      },
      ::testing::ExitedWithCode(kExitedWithThreads), "");
}

// Asks which groups are alive at each step of its own.
struct Ask final : public Observer {
  void OnTransition(const TransitionEvent&) override { AllLiveGroups(); }
};

// The hook waits for the groups, and the groups for their observers.
TEST(GroupPoolExitDeathTest, WhileTheProcessExitsAnObserverMayAskWhatIsAlive) {
  EXPECT_EXIT(
      {
        Ask ask;
        PoolOptions options;
        options.observer = &ask;
        TestJob job(1, options);
        absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
        exit(lease.ok() ? kExitedWithThreads : 1);
      },
      ::testing::ExitedWithCode(kExitedWithThreads), "aborted: group train/1, ready, 1 holder");
}

// PT#31467: a world of one that is never destroyed hangs at exit.
TEST(GroupPoolExitDeathTest, AWorldOfOneThatIsNeverDestroyedExits) {
  EXPECT_EXIT(
      {
        static TestJob* const job = new TestJob(1);
        static absl::StatusOr<GroupLease>* const lease =
            new absl::StatusOr<GroupLease>(job->pool(0).Acquire(TestJob::Spec()));
        exit(lease->ok() && (**lease)->Barrier().ok() ? kExitedWithThreads : 1);
      },
      ::testing::ExitedWithCode(kExitedWithThreads), "");
}

// PT#126275: a wall of warnings at exit.
TEST(GroupPoolExitDeathTest, AnExitSaysOneLineAGroupWithWhereItWasMade) {
  const auto one_line_each = [](const std::string& log) {
    const auto lines = [&log](absl::string_view what) {
      size_t count = 0;
      for (const absl::string_view line : absl::StrSplit(log, '\n')) {
        if (absl::StrContains(line, what) && absl::StrContains(line, "group_pool_end_test.cc:")) {
          ++count;
        }
      }
      return count;
    };
    return lines("group one/1, ready, 1 holder, created at ") == 1 &&
           lines("group two/1, ready, 1 holder, created at ") == 1 && lines("") == 2;
  };
  EXPECT_EXIT(
      {
        static TestJob* const job = new TestJob(1);
        static std::vector<absl::StatusOr<GroupLease>>* const leases =
            new std::vector<absl::StatusOr<GroupLease>>;
        for (const char* name : {"one", "two"}) {
          GroupSpec spec = TestJob::Spec();
          spec.name = name;
          leases->push_back(job->pool(0).Acquire(spec));
        }
        exit(kExitedWithThreads);
      },
      ::testing::ExitedWithCode(kExitedWithThreads), ::testing::Truly(one_line_each));
}

TEST(GroupPoolExitDeathTest, WhileTheProcessExitsAnObserverMayDestroyItsPool) {
  EXPECT_EXIT(
      {
        Destroy destroy;
        PoolOptions options;
        options.observer = &destroy;
        TestJob job(1, options);
        destroy.job = &job;
        absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
        exit(lease.ok() ? kExitedWithThreads : 1);
      },
      ::testing::ExitedWithCode(kExitedWithThreads),
      "rank 0 destroys its pool on the pool's control thread");
}

// A lease on what has ended holds nothing.
TEST(GroupPoolAbortTest, APoolThatDiesWithALeaseOnAnEndedGroupClosesTheOthers) {
  RecordStates ends;
  PoolOptions options;
  options.observer = &ends;
  TestJob job(1, options);
  absl::StatusOr<GroupLease> ended = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(ended.ok()) << ended.status();
  ended->Abort(absl::CancelledError("enough"));
  GroupSpec spec = TestJob::Spec();
  spec.name = "healthy";
  absl::StatusOr<GroupLease> healthy = job.pool(0).Acquire(spec);
  ASSERT_TRUE(healthy.ok()) << healthy.status();
  healthy->Release();
  job.DestroyPool(0);
  EXPECT_EQ(ends.states["train/1"], GroupState::kAborted);
  EXPECT_EQ(ends.states["healthy/1"], GroupState::kDestroyed);
}

TEST_F(GroupPoolEndTest, AnAcquireDuringTheCloseOfThePoolIsRefusedAndLeavesNothing) {
  Start();
  MakeGroup();
  std::thread closer([&] { EXPECT_TRUE(pool().Close(absl::Hours(1)).ok()); });
  AwaitState(GroupState::kClosing);
  for (const char* name : {"train", "another"}) {
    GroupSpec spec = Spec();
    spec.name = name;
    const absl::Status refused = pool().Acquire(spec).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(refused), HasSubstr("Acquire on a pool that was closed"));
  }
  job_->world().Unblock();
  closer.join();
  EXPECT_EQ(job_->world().live(), 0);
}

TEST_F(GroupPoolEndTest, ACloseOfThePoolEndsTheSetUpThatIsUnderWay) {
  Start();
  job_->world().rules[0].connect_blocks = true;  // until it is cancelled
  absl::Status acquired;
  std::thread acquirer([&] { acquired = pool().Acquire(Spec()).status(); });
  AwaitState(GroupState::kConnecting);
  EXPECT_FALSE(pool().Close(absl::Hours(1)).ok());
  acquirer.join();
  EXPECT_THAT(Message(acquired), HasSubstr("rank 0 closed 'train/1' during its set-up"));
  EXPECT_EQ(job_->world().live(), 0);
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

// Keeps the control thread from carrying out the first close that it hears of.
class HoldAtDraining final : public Observer {
 public:
  void OnTransition(const TransitionEvent& event) override {
    if (event.to != GroupState::kDraining || held_.HasBeenNotified()) return;
    held_.Notify();
    go_.WaitForNotification();
  }
  void AwaitHeld() { held_.WaitForNotification(); }
  void Go() { go_.Notify(); }

 private:
  absl::Notification held_, go_;
};

// Whoever may end a group says so at once; that the group itself hears of it takes a moment.
void ExpectNotHandedOut(TestJob& job, HoldAtDraining& hold, std::thread closer) {
  hold.AwaitHeld();
  EXPECT_EQ(job.pool(0).LiveGroups()[0].state, GroupState::kReady) << "it does not know it yet";
  GroupSpec spec = TestJob::Spec();
  spec.setup_timeout = absl::Milliseconds(50);
  const absl::Status waited = job.pool(0).Acquire(spec).status();
  EXPECT_EQ(waited.code(), absl::StatusCode::kDeadlineExceeded) << waited;
  hold.Go();
  closer.join();
  absl::StatusOr<GroupLease> next = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*next)->id(), "train/2");
}

TEST_F(GroupPoolEndTest, AClosingGroupIsNotHandedOut) {
  HoldAtDraining hold;
  PoolOptions options;
  options.observer = &hold;
  TestJob job(1, options);
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok()) << lease.status();
  ExpectNotHandedOut(job, hold, std::thread([&] { EXPECT_TRUE(lease->Close().ok()); }));
}

TEST_F(GroupPoolEndTest, AGroupThatClosesWithItsLastLeaseIsNotHandedOut) {
  HoldAtDraining hold;
  PoolOptions options;
  options.observer = &hold;
  options.close_idle_groups = true;
  TestJob job(1, options);
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok()) << lease.status();
  ExpectNotHandedOut(job, hold, std::thread([&] { lease->Release(); }));
}

}  // namespace
}  // namespace muster

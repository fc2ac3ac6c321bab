// Who gets which group: creation, reuse, replacement, refusal, and what a failed set-up leaves.
#include "muster/core/group/group_pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/test_job.h"
#include "muster/core/observe/observer.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

float Sum(GroupLease& lease, float value) {
  EXPECT_TRUE(lease->AllReduce(Buffer::Of(value), ReduceOp::kSum).ok());
  return value;
}

// A close_timeout for a vote that is to be refused: a holder has half of it to let go, and the
// answers must come within the other half.
absl::Duration RefusalAfterASecond() { return absl::Seconds(2) * TimeoutScale(); }

TEST(GroupPoolTest, EveryRankGetsTheSameReadyGroup) {
  TestJob job(3);
  std::vector<absl::StatusOr<GroupLease>> leases = job.AcquireAll(TestJob::Spec());
  job.OnEachRank([&](int rank) {
    ASSERT_TRUE(leases[rank].ok()) << leases[rank].status();
    GroupLease& lease = *leases[rank];
    EXPECT_EQ(lease->id(), "train/1");
    EXPECT_EQ(lease->rank(), rank);
    EXPECT_EQ(lease->size(), 3);
    EXPECT_EQ(lease->backend(), "fake");
    EXPECT_EQ(lease->state(), GroupState::kReady);
    EXPECT_EQ(Sum(lease, rank + 1), 6);
  });
}

TEST(GroupPoolTest, AWorldOfOneNeedsNobody) {
  TestJob job(1);
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(Sum(*lease, 7), 7);
  EXPECT_TRUE(lease->Close().ok());
}

TEST(GroupPoolTest, AnEqualSpecReusesTheLiveGroupWithoutCommunication) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec());
  ASSERT_TRUE(leases[0].ok()) << leases[0].status();
  // Rank 1 does not take part, so anything that needed it would hang.
  GroupSpec same = TestJob::Spec();
  same.operation_timeout = absl::Minutes(3);  // not identity
  absl::StatusOr<GroupLease> again = job.pool(0).Acquire(same);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->id(), "train/1");
  EXPECT_EQ(job.pool(0).statistics().groups_created, 1);
  EXPECT_EQ(job.pool(0).statistics().groups_reused, 1);
  EXPECT_EQ(job.pool(0).LiveGroups().at(0).holders, 2);
}

TEST(GroupPoolTest, AReleasedGroupIsReusedByTheNextAcquire) {
  TestJob job(2);
  for (int i = 0; i < 3; ++i) {
    auto leases = job.AcquireAll(TestJob::Spec());
    ASSERT_TRUE(leases[0].ok()) << leases[0].status();
    EXPECT_EQ((*leases[0])->generation(), 1);
  }
  EXPECT_EQ(job.pool(0).statistics().groups_reused, 2);
}

TEST(GroupPoolTest, AnotherIdentityTakesTheNameOnceNobodyHoldsIt) {
  TestJob job(2);
  {
    auto leases = job.AcquireAll(TestJob::Spec("fake"));
  }
  auto leases = job.AcquireAll(TestJob::Spec("other"));
  for (auto& lease : leases) {
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ((*lease)->id(), "train/2");
    EXPECT_EQ((*lease)->backend(), "other");
  }
  EXPECT_EQ(job.world().live(), 2);
  EXPECT_EQ(job.pool(0).statistics().groups_destroyed, 1);
}

TEST(GroupPoolTest, AnotherIdentityIsRefusedHereWhileHeldHere) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec("fake"));
  auto refused = job.AcquireAll(TestJob::Spec("other"));
  for (auto& lease : refused) {
    EXPECT_EQ(lease.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(lease.status().message()), HasSubstr("test_job.h:"));
    EXPECT_THAT(std::string(lease.status().message()),
                HasSubstr("backend is 'fake' there and 'other' is wanted"));
  }
  job.OnEachRank([&](int rank) { EXPECT_EQ(Sum(*leases[rank], 1), 2); });
}

TEST(GroupPoolTest, AHolderOnAnotherRankRefusesTheReplacementAndKeepsItsGroup) {
  TestJob job(2);
  GroupSpec spec = TestJob::Spec("fake");
  spec.close_timeout = RefusalAfterASecond();
  auto leases = job.AcquireAll(spec);
  leases[0]->Release();
  absl::StatusOr<GroupLease> other = job.pool(0).Acquire(TestJob::Spec("other"));
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("held by rank 1 (test_job.h:"));
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("'other' is wanted"));
  // The refused proposal changed nothing.
  leases[0] = job.pool(0).Acquire(TestJob::Spec("fake"));
  ASSERT_TRUE(leases[0].ok()) << leases[0].status();
  EXPECT_EQ((*leases[0])->generation(), 1);
  job.OnEachRank([&](int rank) { EXPECT_EQ(Sum(*leases[rank], 1), 2); });
}

// Counts how often a rank was asked whether its group may be replaced.
ScopedFaults CountQuestions(int rank) {
  FaultSpec count;
  count.point = FaultPoint::kPoolVoting;
  count.action = FaultAction::kDelay;  // by nothing
  count.rank = rank;
  return ScopedFaults::Arm(std::vector<FaultSpec>{count});
}

// Ranks are never quite in step: one asks for the next group while another still uses the last one.
TEST(GroupPoolTest, ARankThatIsAStepBehindDoesNotRefuseWhatItIsAboutToAskForItself) {
  TestJob job(2);
  GroupSpec spec = TestJob::Spec("fake");
  spec.close_timeout = absl::Hours(1);  // its release must be noticed, not the end of the patience
  auto leases = job.AcquireAll(spec);
  ASSERT_TRUE(leases[0].ok() && leases[1].ok());
  const ScopedFaults questions = CountQuestions(1);
  leases[0]->Release();
  std::thread rank0([&] { leases[0] = job.pool(0).Acquire(TestJob::Spec("other")); });
  while (questions.happened() == 0) std::this_thread::yield();
  EXPECT_TRUE((*leases[1])->status().ok()) << "it is asked while it still uses the group";
  leases[1]->Release();
  leases[1] = job.pool(1).Acquire(TestJob::Spec("other"));
  rank0.join();
  for (auto& lease : leases) {
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ((*lease)->id(), "train/2");
  }
}

TEST(GroupPoolTest, AVoteThatLastsLongerThanTheCallersPatienceIsNotWaitedFor) {
  TestJob job(2);
  GroupSpec spec = TestJob::Spec("fake");
  spec.close_timeout = absl::Hours(1);
  auto leases = job.AcquireAll(spec);
  ASSERT_TRUE(leases[0].ok() && leases[1].ok());
  leases[0]->Release();
  GroupSpec other = TestJob::Spec("other");
  other.setup_timeout = absl::Milliseconds(50);
  const absl::Status late = job.pool(0).Acquire(other).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.message()), HasSubstr("the vote on replacing 'train/1'"));
}

// A lease may end before the operations that were started on it.
TEST(GroupPoolTest, WorkInFlightHoldsTheGroupAgainstAReplacementWhenItsLeaseIsGone) {
  TestJob job(2);
  GroupSpec spec = TestJob::Spec("fake");
  spec.close_timeout = RefusalAfterASecond();
  auto leases = job.AcquireAll(spec);
  ASSERT_TRUE(leases[0].ok()) << leases[0].status();
  float value = 1;
  Work work = (*leases[0])->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);  // waits for rank 1
  leases.clear();
  const absl::Status refused = job.pool(1).Acquire(TestJob::Spec("other")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("held by rank 0 (all_reduce #1 in flight)"));
  EXPECT_FALSE(work.done());
  absl::StatusOr<GroupLease> again = job.pool(1).Acquire(spec);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->generation(), 1);
  EXPECT_EQ(Sum(*again, 2), 3);
  EXPECT_TRUE(work.Wait().ok());
  EXPECT_EQ(value, 3);
}

// A vote that work in flight has lost here already is not waited for.
TEST(GroupPoolTest, ARankWithWorkInFlightHandsOutItsGroupWhileTheOthersVote) {
  TestJob job(2);
  GroupSpec spec = TestJob::Spec("fake");
  spec.close_timeout = absl::Hours(1);
  auto leases = job.AcquireAll(spec);
  ASSERT_TRUE(leases[0].ok() && leases[1].ok());
  float value = 1;
  Work work = (*leases[0])->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);  // waits for rank 1
  const ScopedFaults questions = CountQuestions(0);
  leases[0]->Release();
  leases[1]->Release();
  std::thread rank1([&] { leases[1] = job.pool(1).Acquire(TestJob::Spec("other")); });
  while (questions.happened() == 0) std::this_thread::yield();
  // Rank 0 has looked when this group is there, which asks for more of its control thread.
  GroupSpec later = TestJob::Spec();
  later.name = "later";
  for (auto& lease : job.AcquireAll(later)) EXPECT_TRUE(lease.ok()) << lease.status();
  absl::StatusOr<GroupLease> again = job.pool(0).Acquire(spec);
  EXPECT_TRUE(again.ok()) << again.status();
  if (again.ok()) {
    EXPECT_EQ((*again)->generation(), 1);
    again->Abort(absl::CancelledError("enough"));
  } else {
    job.pool(0).Abort(absl::CancelledError("enough"));
  }
  leases[0] = job.pool(0).Acquire(TestJob::Spec("other"));
  rank1.join();
  EXPECT_TRUE(leases[0].ok() && leases[1].ok()) << leases[0].status() << "; " << leases[1].status();
}

TEST(GroupPoolTest, TheEndOfTheLastWorkLetsAReplacementThatWaitsForItGoOn) {
  TestJob job(2);
  GroupSpec spec = TestJob::Spec("fake");
  spec.close_timeout = absl::Hours(1);  // the wake-up must come, not the end of the vote's patience
  auto leases = job.AcquireAll(spec);
  ASSERT_TRUE(leases[0].ok() && leases[1].ok());
  float value = 1;
  Work work = (*leases[0])->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);
  leases[0]->Release();
  std::thread rank0([&] { leases[0] = job.pool(0).Acquire(TestJob::Spec("other")); });
  job.world().WaitForOperations(1);
  EXPECT_EQ(Sum(*leases[1], 2), 3);
  leases[1]->Release();
  leases[1] = job.pool(1).Acquire(TestJob::Spec("other"));
  rank0.join();
  EXPECT_TRUE(work.Wait().ok()) << "it ended before its group did";
  for (auto& lease : leases) {
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ((*lease)->id(), "train/2");
  }
}

// Keeps rank 0's control thread from seeing that its group is ready, until it is let go.
class HoldAtReady final : public Observer {
 public:
  void OnTransition(const TransitionEvent& event) override {
    if (event.rank == 0 && event.to == GroupState::kReady) go_.WaitForNotification();
  }
  void Go() { go_.Notify(); }

 private:
  absl::Notification go_;
};

// Rank 0 is asked for its group right after the set-up, when whoever made it may not have its lease
// yet: a race, with another chance each round.
TEST(GroupPoolTest, AGroupIsNotTakenAwayBetweenItsSetUpAndItsFirstUse) {
  for (int round = 0; round < 10; ++round) {
    HoldAtReady hold;
    PoolOptions options;
    options.observer = &hold;
    TestJob job(2, options);
    GroupSpec spec = TestJob::Spec("fake");
    spec.close_timeout = absl::Hours(1);  // rank 0 has all the time to let go
    const ScopedFaults asked_there = CountQuestions(1);
    const ScopedFaults asked_here = CountQuestions(0);
    absl::StatusOr<GroupLease> there;
    std::thread rank1([&] {
      there = job.pool(1).Acquire(spec);
      ASSERT_TRUE(there.ok()) << there.status();
      there->Release();
      there = job.pool(1).Acquire(TestJob::Spec("other"));
    });
    std::thread go([&] {
      while (asked_there.happened() == 0) std::this_thread::yield();
      hold.Go();  // the question is in the queue of rank 0 now
    });
    absl::StatusOr<GroupLease> here = job.pool(0).Acquire(spec);
    ASSERT_TRUE(here.ok()) << here.status();
    while (asked_here.happened() == 0) std::this_thread::yield();
    // What came of a wrong answer is there when this group is, which asks for more of the store.
    GroupSpec later = TestJob::Spec();
    later.name = "later";
    for (auto& lease : job.AcquireAll(later)) EXPECT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE((*here)->status().ok()) << (*here)->status();
    here->Release();
    here = job.pool(0).Acquire(TestJob::Spec("other"));
    rank1.join();
    go.join();
    ASSERT_TRUE(here.ok() && there.ok()) << here.status() << "; " << there.status();
  }
}

TEST(GroupPoolTest, EveryThreadThatAskedForTheReplacementLearnsOfItsRefusal) {
  TestJob job(2);
  GroupSpec spec = TestJob::Spec("fake");
  spec.close_timeout = RefusalAfterASecond();
  auto leases = job.AcquireAll(spec);
  leases[0]->Release();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      EXPECT_EQ(job.pool(0).Acquire(TestJob::Spec("other")).status().code(),
                absl::StatusCode::kFailedPrecondition);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(GroupPoolTest, RanksThatAskForDifferentGroupsAllLearnWhoAskedForWhat) {
  TestJob job(3);
  std::vector<absl::Status> results(3);
  job.OnEachRank([&](int rank) {
    results[rank] = job.pool(rank).Acquire(TestJob::Spec(rank == 2 ? "other" : "fake")).status();
  });
  for (const absl::Status& status : results) {
    EXPECT_EQ(status, results[0]);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("backend is 'fake' on ranks 0, 1 and 'other' on rank 2"));
  }
  auto leases = job.AcquireAll(TestJob::Spec());
  EXPECT_TRUE(leases[0].ok()) << "a new attempt works at once: " << leases[0].status();
}

TEST(GroupPoolTest, ABackendThatOneRankLacksFailsEveryRankWithTheList) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec("nccl"));
  for (auto& lease : leases) {
    EXPECT_EQ(lease.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(lease.status().message()), HasSubstr("rank 0"));
    EXPECT_THAT(std::string(lease.status().message()), HasSubstr("fake"));
  }
}

TEST(GroupPoolTest, AutoTakesABackendThatEveryRankOffers) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec("auto"));
  ASSERT_TRUE(leases[0].ok()) << leases[0].status();
  EXPECT_EQ((*leases[0])->backend(), "fake");
}

TEST(GroupPoolTest, AnInvalidSpecIsRefusedBeforeAnythingHappens) {
  TestJob job(1);
  GroupSpec spec = TestJob::Spec();
  spec.name = "a b";
  EXPECT_THAT(std::string(job.pool(0).Acquire(spec).status().message()),
              HasSubstr("GroupSpec.name is 'a b'"));
  spec = TestJob::Spec();
  spec.close_timeout = absl::ZeroDuration();
  EXPECT_THAT(std::string(job.pool(0).Acquire(spec).status().message()),
              HasSubstr("GroupSpec.close_timeout is 0"));
}

TEST(GroupPoolTest, ARankThatNeverComesIsNamedWhenTheSetUpTimesOut) {
  TestJob job(3);
  GroupSpec spec = TestJob::Spec();
  spec.setup_timeout = absl::Seconds(1) * TimeoutScale();  // rank 1 must come in time
  std::vector<absl::Status> results(2);
  std::thread rank1([&] { results[1] = job.pool(1).Acquire(spec).status(); });
  results[0] = job.pool(0).Acquire(spec).status();
  rank1.join();
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2"));
  }
  EXPECT_THAT(job.pool(0).LiveGroups(), IsEmpty());
}

TEST(GroupPoolTest, AConnectThatFailsOnOneRankIsUndoneOnAllAndTheNextAttemptWorks) {
  TestJob job(3);
  job.world().rules[1].connect_error = absl::ResourceExhaustedError("no port");
  auto failed = job.AcquireAll(TestJob::Spec());
  for (auto& lease : failed) {
    EXPECT_EQ(lease.status(), failed[0].status());
    EXPECT_THAT(std::string(lease.status().message()),
                HasSubstr("rank 1 could not connect 'train/1': no port"));
  }
  EXPECT_EQ(job.world().live(), 0);
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
  job.world().rules.clear();
  auto leases = job.AcquireAll(TestJob::Spec());
  for (auto& lease : leases) {
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ((*lease)->id(), "train/2");
  }
}

TEST(GroupPoolTest, AConnectThatNeverReturnsIsCancelledWhenAnotherRankFails) {
  TestJob job(2);
  job.world().rules[0].connect_blocks = true;
  job.world().rules[1].connect_error = absl::InternalError("broken");
  auto failed = job.AcquireAll(TestJob::Spec());
  for (auto& lease : failed)
    EXPECT_THAT(std::string(lease.status().message()), HasSubstr("rank 1 could not connect"));
}

TEST(GroupPoolTest, ARankLostDuringTheSetUpIsTheCauseOnTheOthers) {
  TestJob job(2);
  job.world().rules[0].connect_blocks = true;
  absl::Status result;
  std::thread rank0([&] { result = job.pool(0).Acquire(TestJob::Spec()).status(); });
  std::thread rank1([&] { job.pool(1).Acquire(TestJob::Spec()).status().IgnoreError(); });
  while (job.pool(0).LiveGroups().empty() || job.pool(0).LiveGroups()[0].generation == 0)
    std::this_thread::yield();
  job.server().DeclareLost(1, "killed by signal 9");
  rank0.join();
  rank1.join();
  EXPECT_EQ(result.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.message()), HasSubstr("rank 1 (host "));
  EXPECT_THAT(std::string(result.message()), HasSubstr("was lost: killed by signal 9"));
}

TEST(GroupPoolTest, ABackendThatIsSlowToAnswerWhetherItWorksHoldsUpNobodyElse) {
  TestJob job(1);
  job.world().check_hangs = true;
  std::thread acquirer([&] { EXPECT_TRUE(job.pool(0).Acquire(TestJob::Spec()).ok()); });
  job.world().WaitForHang();
  absl::Notification answered;
  std::thread other([&] {
    EXPECT_THAT(job.pool(0).LiveGroups(), IsEmpty());
    answered.Notify();
  });
  EXPECT_TRUE(answered.WaitForNotificationWithTimeout(absl::Seconds(10) * TimeoutScale()));
  job.world().Unblock();
  acquirer.join();
  other.join();
}

TEST(GroupPoolTest, TheLastLeaseClosesTheGroupWhenThePoolIsToldSo) {
  PoolOptions options;
  options.close_idle_groups = true;
  TestJob job(2, options);
  auto leases = job.AcquireAll(TestJob::Spec());
  ASSERT_TRUE(leases[0].ok()) << leases[0].status();
  job.OnEachRank([&](int rank) { leases[rank]->Release(); });
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
  EXPECT_EQ(job.world().live(), 0);
  EXPECT_EQ(job.pool(0).statistics().groups_destroyed, 1);
}

TEST(GroupPoolTest, ClosingThePoolIsRefusedWhileALeaseIsOutAndThenDestroysEverything) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec());
  absl::Status held = job.pool(0).Close(absl::Seconds(5));
  EXPECT_EQ(held.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(held.message()), HasSubstr("'train/1' (test_job.h:"));
  EXPECT_EQ((*leases[0])->state(), GroupState::kReady);
  leases.clear();
  job.OnEachRank(
      [&](int rank) { EXPECT_TRUE(job.pool(rank).Close(TestJob::Spec().close_timeout).ok()); });
  EXPECT_EQ(job.world().live(), 0);
  EXPECT_THAT(std::string(job.pool(0).Acquire(TestJob::Spec()).status().message()),
              HasSubstr("closed"));
  EXPECT_TRUE(job.pool(0).Close(absl::Seconds(5)).ok()) << "idempotent";
}

TEST(GroupPoolTest, APoolThatDiesWhileHeldAbortsAndTellsThePeers) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec());
  ASSERT_TRUE(leases[0].ok()) << leases[0].status();
  job.DestroyPool(0);
  float value = 1;
  absl::Status here = (*leases[0])->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  absl::Status there = (*leases[1])->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  for (const absl::Status& status : {here, there}) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 0 destroyed its pool while it held 'train/1'"));
  }
  EXPECT_FALSE(leases[1]->Close().ok()) << "waits for the end of the abort";
  EXPECT_EQ(job.world().live(), 0);
}

TEST(GroupPoolTest, AForkedChildCannotUseItsParentsPool) {
  TestJob job(1);
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok());
  const pid_t child = fork();
  if (child == 0) {
    const auto is_refusal = [](const absl::Status& status) {
      return absl::IsFailedPrecondition(status) &&
             absl::StrContains(status.message(), "forked child");
    };
    float value = 1;
    const bool refused =
        is_refusal(job.pool(0).Acquire(TestJob::Spec()).status()) &&
        is_refusal((*lease)->AllReduce(Buffer::Of(value), ReduceOp::kSum)) &&
        is_refusal((*lease)->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum).Wait()) &&
        is_refusal(lease->Close()) && is_refusal(job.pool(0).Close(absl::Seconds(1)));
    lease->Abort(absl::CancelledError("not the child's"));
    job.pool(0).Abort(absl::CancelledError("not the child's"));
    lease->Release();
    job.DestroyPool(0);  // and does not hang in what is its parent's
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(Sum(*lease, 2), 2) << "the parent's group lives on";
}

TEST(GroupPoolTest, ManyGenerationsLeaveNothing) {
  TestJob job(2);
  for (int i = 1; i <= 50; ++i) {
    auto leases = job.AcquireAll(TestJob::Spec());
    job.OnEachRank([&](int rank) {
      ASSERT_TRUE(leases[rank].ok()) << leases[rank].status();
      EXPECT_EQ((*leases[rank])->generation(), i);
      EXPECT_TRUE(leases[rank]->Close().ok());
    });
    ASSERT_EQ(job.world().live(), 0);
  }
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

TEST(GroupPoolTest, SeveralGroupsLiveSideBySide) {
  TestJob job(2);
  GroupSpec a = TestJob::Spec();
  a.name = "a";
  GroupSpec b = TestJob::Spec("other");
  b.name = "b";
  auto as = job.AcquireAll(a);
  auto bs = job.AcquireAll(b);
  job.OnEachRank([&](int rank) {
    ASSERT_TRUE(as[rank].ok() && bs[rank].ok());
    EXPECT_EQ(Sum(*as[rank], 1), 2);
    EXPECT_EQ(Sum(*bs[rank], 2), 4);
    // Closed in another order on each rank: closes are matched by group, not by time.
    std::thread other([&] { EXPECT_TRUE((rank == 0 ? bs : as)[rank]->Close().ok()); });
    EXPECT_TRUE((rank == 0 ? as : bs)[rank]->Close().ok());
    other.join();
  });
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

}  // namespace
}  // namespace muster

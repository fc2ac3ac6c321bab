// Who takes the name of a group from whom: votes, holders, and the refusals that everybody learns.
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/test_job.h"
#include "muster/core/observe/observer.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

float Sum(GroupLease& lease, float value) {
  EXPECT_TRUE(lease->AllReduce(Buffer::Of(value), ReduceOp::kSum).ok());
  return value;
}

// A close_timeout for a vote that is to be refused: a holder has half of it to let go, and the
// answers must come within the other half.
absl::Duration RefusalAfterASecond() { return absl::Seconds(2) * TimeoutScale(); }

TEST(GroupReplacementTest, AnotherIdentityTakesTheNameOnceNobodyHoldsIt) {
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

TEST(GroupReplacementTest, AnotherIdentityIsRefusedHereWhileHeldHere) {
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

TEST(GroupReplacementTest, AHolderOnAnotherRankRefusesTheReplacementAndKeepsItsGroup) {
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

// As in `lease = pool.Acquire(other)`: the former lease is out until the new one is there.
TEST(GroupReplacementTest, AfterAFailureAnotherIdentityIsNotRefusedWhereTheGroupStillEnds) {
  TestJob job(2);
  job.world().rules[1].destructor_hangs = true;
  auto leases = job.AcquireAll(TestJob::Spec("fake"));
  leases[0]->Abort(absl::InternalError("boom"));
  job.world().WaitForHang();
  ASSERT_EQ((*leases[1])->state(), GroupState::kAborting);
  GroupSpec impatient = TestJob::Spec("other");
  impatient.setup_timeout = absl::Milliseconds(50);
  const absl::Status waited = job.pool(1).Acquire(impatient).status();
  EXPECT_EQ(waited.code(), absl::StatusCode::kDeadlineExceeded) << waited;
  EXPECT_THAT(std::string(waited.message()), HasSubstr("'train/1' was aborting for longer than"));
  job.world().Unblock();
  job.OnEachRank([&](int rank) {
    leases[rank] = job.pool(rank).Acquire(TestJob::Spec("other"));
    ASSERT_TRUE(leases[rank].ok()) << leases[rank].status();
    EXPECT_EQ((*leases[rank])->id(), "train/2");
  });
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
TEST(GroupReplacementTest, ARankThatIsAStepBehindDoesNotRefuseWhatItIsAboutToAskForItself) {
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

TEST(GroupReplacementTest, AVoteThatLastsLongerThanTheCallersPatienceIsNotWaitedFor) {
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
TEST(GroupReplacementTest, WorkInFlightHoldsTheGroupAgainstAReplacementWhenItsLeaseIsGone) {
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
TEST(GroupReplacementTest, ARankWithWorkInFlightHandsOutItsGroupWhileTheOthersVote) {
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

TEST(GroupReplacementTest, TheEndOfTheLastWorkLetsAReplacementThatWaitsForItGoOn) {
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
TEST(GroupReplacementTest, AGroupIsNotTakenAwayBetweenItsSetUpAndItsFirstUse) {
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

TEST(GroupReplacementTest, EveryThreadThatAskedForTheReplacementLearnsOfItsRefusal) {
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

}  // namespace
}  // namespace muster

// What happens to a group that is in use: operations, close, abort, and failures of peers.
#include "muster/core/group/group.h"

#include <stdexcept>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/test_job.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

absl::Status AllReduce(GroupLease& lease) {
  float value = 1;
  return lease->AllReduce(Buffer::Of(value), ReduceOp::kSum);
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// A job whose group is ready on every rank.
class GroupTest : public ::testing::Test {
 protected:
  void Start(int size, const GroupSpec& spec = TestJob::Spec()) {
    job_ = std::make_unique<TestJob>(size);
    Acquire(spec);
  }
  void Acquire(const GroupSpec& spec = TestJob::Spec()) {
    leases_.clear();
    for (absl::StatusOr<GroupLease>& lease : job_->AcquireAll(spec)) {
      ASSERT_TRUE(lease.ok()) << lease.status();
      leases_.push_back(*std::move(lease));
    }
  }
  void TearDown() override {
    if (job_ == nullptr) return;
    leases_.clear();
    job_->OnEachRank([&](int rank) { job_->DestroyPool(rank); });
    EXPECT_THAT(AllLiveGroups(), IsEmpty());
    EXPECT_EQ(job_->world().live(), 0);
  }

  std::unique_ptr<TestJob> job_;
  std::vector<GroupLease> leases_;
};

// --- operations

TEST_F(GroupTest, AMisuseIsFoundBeforeAnythingMovesAndTheGroupStaysUsable) {
  Start(2);
  float value = 1;
  absl::Status status = leases_[0]->Broadcast(Buffer::Of(value), 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("broadcast of train/1: "));
  job_->OnEachRank([&](int rank) { EXPECT_TRUE(AllReduce(leases_[rank]).ok()); });
}

TEST_F(GroupTest, WhatTheBackendLacksIsUnimplementedAndHarmless) {
  Start(2);
  float value = 1;
  job_->OnEachRank([&](int rank) {
    EXPECT_EQ(leases_[rank]->Broadcast(Buffer::Of(value), 0).code(),
              absl::StatusCode::kUnimplemented);
    EXPECT_TRUE(AllReduce(leases_[rank]).ok());
  });
}

// InvalidArgument is said of what leaves the group alone.
TEST_F(GroupTest, AMisuseThatOnlyTheBackendFindsAbortsTheGroupAndSaysSo) {
  job_ = std::make_unique<TestJob>(2);
  job_->world().rules[1].operation_error =
      absl::InvalidArgumentError("the ranks called different operations");
  Acquire();
  job_->OnEachRank([&](int rank) {
    const absl::Status status = AllReduce(leases_[rank]);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(Message(status), HasSubstr("rank 1: the ranks called different operations"));
    EXPECT_FALSE(leases_[rank]->status().ok());
  });
}

// An abort that finds the group idle lets its queue go before the cause is known; an operation that
// came in between was never run and never ended. A race: each round has another chance to meet it.
TEST_F(GroupTest, AnAsynchronousOperationThatMeetsAnAbortEnds) {
  Start(1);
  for (int round = 0; round < 200; ++round) {
    if (round > 0) Acquire();
    std::thread aborts([&] { leases_[0].Abort(absl::AbortedError("enough")); });
    absl::Status status;
    while (status.ok()) {
      float value = 1;
      Work work = leases_[0]->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);
      status = work.Wait();
    }
    aborts.join();
    EXPECT_THAT(Message(status), HasSubstr("enough"));
  }
}

TEST_F(GroupTest, AsynchronousOperationsRunInTheOrderOfCallsAndABlockingOneWaitsForThem) {
  Start(2);
  job_->OnEachRank([&](int rank) {
    float value = 1;
    std::vector<Work> works;
    for (int i = 0; i < 10; ++i) {
      works.push_back(leases_[rank]->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum));
    }
    float last = 1;
    EXPECT_TRUE(leases_[rank]->AllReduce(Buffer::Of(last), ReduceOp::kSum).ok());
    for (Work& work : works) {
      EXPECT_TRUE(work.done()) << "a blocking operation overtook it";
      EXPECT_TRUE(work.Wait().ok());
    }
    EXPECT_EQ(value, 1024);
    EXPECT_EQ(last, 2);
  });
}

TEST_F(GroupTest, ASecondThreadsOperationIsRefusedWhileOneIsRunning) {
  Start(2);
  std::thread first([&] { EXPECT_TRUE(AllReduce(leases_[0]).ok()); });
  job_->world().WaitForOperations(1);
  absl::Status second = AllReduce(leases_[0]);
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(second), HasSubstr("another thread is in all_reduce #1"));
  EXPECT_TRUE(AllReduce(leases_[1]).ok());
  first.join();
}

TEST_F(GroupTest, AnOperationThatPassesItsTimeoutIsTheCauseOnEveryRankAndNamesWhoWaited) {
  GroupSpec spec = TestJob::Spec();
  spec.operation_timeout = absl::Milliseconds(30);
  Start(2, spec);
  absl::Status here = AllReduce(leases_[0]);  // rank 1 never enters
  EXPECT_EQ(here.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(here),
              StartsWith("all_reduce #1 of train/1 did not finish within 30ms on rank 0"));
  absl::Status there = AllReduce(leases_[1]);
  EXPECT_THAT(Message(there), HasSubstr("did not finish within 30ms on rank 0"));
}

// A backend knows whom its own rank waits for, which may be one that waits itself. The ranks'
// control threads know it, also of a rank that is stuck in user code.
TEST_F(GroupTest, AnOperationThatPassesItsTimeoutNamesWhoHasNotEnteredItAndWhereThatIs) {
  GroupSpec spec = TestJob::Spec();
  spec.operation_timeout = absl::Milliseconds(500) * TimeoutScale();  // the barrier is to pass
  spec.cause_window = absl::Seconds(1) * TimeoutScale();
  for (const bool async : {false, true}) {
    Start(3, spec);
    job_->OnEachRank([&](int rank) { EXPECT_TRUE(leases_[rank]->Barrier().ok()); });
    std::vector<absl::Status> results(3);
    job_->OnEachRank([&](int rank) {
      if (rank == 2) return;
      float value = 1;
      results[rank] = async
                          ? leases_[rank]->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum).Wait()
                          : AllReduce(leases_[rank]);
    });
    results[2] = AllReduce(leases_[2]);
    for (const absl::Status& result : results) {
      EXPECT_THAT(Message(result), HasSubstr("all_reduce #2 of train/1 did not finish within "));
      EXPECT_THAT(Message(result),
                  EndsWith("other ranks did not come; rank 2 has not entered it (it is after #1)"));
    }
  }
}

TEST_F(GroupTest, OfAGroupOverSomeRanksItNamesTheRankOfTheJob) {
  job_ = std::make_unique<TestJob>(3);
  GroupSpec spec = TestJob::Spec();
  spec.members = {0, 2};
  spec.operation_timeout = absl::Milliseconds(50);
  spec.cause_window = absl::Seconds(1) * TimeoutScale();
  std::vector<absl::StatusOr<GroupLease>> leases(3);
  job_->OnEachRank([&](int rank) {
    if (rank != 1) leases[rank] = job_->pool(rank).Acquire(spec);
  });
  ASSERT_TRUE(leases[0].ok() && leases[2].ok()) << leases[0].status() << leases[2].status();
  EXPECT_THAT(Message(AllReduce(*leases[0])),
              EndsWith("rank 2 has not entered it (it is after #0)"));
}

TEST_F(GroupTest, ABackendThatIgnoresItsDeadlineNamesThemToo) {
  GroupSpec spec = TestJob::Spec();
  spec.operation_timeout = absl::Milliseconds(50);
  spec.cause_window = absl::Milliseconds(500);
  job_ = std::make_unique<TestJob>(2);
  job_->world().rules[0].ignores_deadline = true;
  Acquire(spec);
  EXPECT_THAT(Message(AllReduce(leases_[0])),
              EndsWith("after its deadline; rank 1 has not entered it (it is after #0)"));
}

// The group watches deadlines, too: a backend that does not keep them is aborted, which ends what
// is inside of it.
TEST_F(GroupTest, ABackendThatIgnoresItsDeadlineIsAbortedAndEveryRankLearnsTheOperation) {
  GroupSpec spec = TestJob::Spec();
  spec.operation_timeout = absl::Milliseconds(30);
  spec.cause_window = absl::Milliseconds(20);
  job_ = std::make_unique<TestJob>(2);
  job_->world().rules[0].ignores_deadline = true;
  Acquire(spec);
  float value = 1;
  Work first = leases_[0]->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);  // without rank 1
  Work second = leases_[0]->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);
  const absl::Time soon = MonotonicNow() + absl::Seconds(10) * TimeoutScale();
  const absl::Status here = first.Wait(soon);
  job_->world().Unblock();
  EXPECT_EQ(here.code(), absl::StatusCode::kDeadlineExceeded);
  const std::string cause =
      "all_reduce #1 of train/1 did not finish within 30ms on rank 0: the backend \"fake\" has not "
      "returned, 20ms after its deadline";
  EXPECT_THAT(Message(here), StartsWith(cause));
  EXPECT_THAT(Message(second.Wait(soon)),
              StartsWith(absl::StrCat("all_reduce #2 of train/1: ", cause)));
  EXPECT_THAT(Message(AllReduce(leases_[1])), HasSubstr(cause));
}

TEST_F(GroupTest, ABackendThatKeepsItsDeadlineSpeaksFirst) {
  GroupSpec spec = TestJob::Spec();
  spec.operation_timeout = absl::Milliseconds(30);
  spec.cause_window = absl::Seconds(10) * TimeoutScale();
  Start(2, spec);
  EXPECT_THAT(Message(AllReduce(leases_[0])), HasSubstr("on rank 0: other ranks did not come"));
}

TEST_F(GroupTest, AnEmptyLeaseAnswersEveryOperationWithWhatToDo) {
  Start(1);
  leases_[0].Release();
  EXPECT_THAT(Message(AllReduce(leases_[0])), HasSubstr("this lease is empty"));
  EXPECT_THAT(Message(leases_[0].Close()), HasSubstr("this lease is empty"));
  EXPECT_FALSE(leases_[0]->AllReduceAsync(Buffer(), ReduceOp::kSum).Wait().ok());
}

// The ranks number their collectives alike, so one that cannot be run on a rank fails all of them.
TEST_F(GroupTest, AnOperationThatGetsNoThreadBreaksTheGroupOnEveryRank) {
  Start(2);
  absl::StatusOr<ScopedFaults> faults =
      ScopedFaults::Arm("group.queue=fail(message=\"no thread\",rank=0)");
  ASSERT_TRUE(faults.ok()) << faults.status();
  absl::Status there;
  std::thread rank1([&] { there = AllReduce(leases_[1]); });
  float value = 1;
  Work work = leases_[0]->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);
  rank1.join();
  EXPECT_EQ(Message(work.Wait()), "all_reduce #1 of train/1: rank 0: no thread");
  EXPECT_THAT(Message(there), HasSubstr("of train/1: rank 0: no thread"));
  EXPECT_THAT(Message(AllReduce(leases_[0])), HasSubstr("no thread"));
}

TEST_F(GroupTest, OperationsOfManyThreadsAreQueuedInTheOrderOfTheirNumbers) {
  Start(1);
  constexpr int kEach = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      float value = 1;
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(leases_[0]->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum).Wait().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(leases_[0].Close().ok()) << "drains to the last number";
}

// --- close

TEST_F(GroupTest, CloseByOneRankDestroysTheGroupOnEveryRank) {
  Start(3);
  job_->OnEachRank([&](int rank) { EXPECT_TRUE(AllReduce(leases_[rank]).ok()); });
  EXPECT_TRUE(leases_[0].Close().ok());
  EXPECT_TRUE(leases_[0].Close().ok()) << "the same result, again";
  absl::Status later = AllReduce(leases_[2]);
  EXPECT_EQ(later.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(later), HasSubstr("all_reduce of train/1"));
  EXPECT_THAT(Message(later), HasSubstr("rank 0 closed after #1"));
  EXPECT_TRUE(leases_[1].Close().ok());
}

TEST_F(GroupTest, CloseLetsWorkInFlightFinish) {
  Start(2);
  job_->OnEachRank([&](int rank) {
    float value = 1;
    Work work = leases_[rank]->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);
    EXPECT_TRUE(leases_[rank].Close().ok());
    EXPECT_TRUE(work.Wait(absl::InfinitePast()).ok()) << "finished before the close did";
    EXPECT_EQ(value, 2);
  });
}

TEST_F(GroupTest, WorkBeyondTheCloseIsWokenWithWhoClosedAfterWhat) {
  Start(2);
  absl::Status beyond;
  std::thread rank1([&] { beyond = AllReduce(leases_[1]); });
  job_->world().WaitForOperations(1);
  absl::Status closed = leases_[0].Close();
  rank1.join();
  EXPECT_THAT(Message(beyond),
              HasSubstr("rank 0 closed after #0, and rank 1 was in all_reduce #1"));
  EXPECT_THAT(Message(closed),
              HasSubstr("rank 0 closed after #0, and rank 1 was in all_reduce #1"));
}

TEST_F(GroupTest, OnlyTheLastHolderCloses) {
  Start(2);
  absl::StatusOr<GroupLease> second = job_->pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(second.ok());
  absl::Status refused = leases_[0].Close();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refused), HasSubstr("it is held by group_test.cc:"));
  job_->OnEachRank([&](int rank) { EXPECT_TRUE(AllReduce(leases_[rank]).ok()); });
  leases_[0].Release();
  EXPECT_TRUE(second->Close().ok());
}

TEST_F(GroupTest, AFinalizeThatNeverReturnsBecomesAnAbort) {
  GroupSpec spec = TestJob::Spec();
  spec.close_timeout = absl::Seconds(1) * TimeoutScale();  // to get as far as Finalize
  job_ = std::make_unique<TestJob>(2);
  job_->world().rules[1].finalize_blocks = true;
  Acquire(spec);
  std::vector<absl::Status> results(2);
  job_->OnEachRank([&](int rank) { results[rank] = leases_[rank].Close(); });
  EXPECT_TRUE(results[0].ok()) << "final states may differ between ranks: " << results[0];
  EXPECT_EQ(results[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(results[1]), HasSubstr("its backend did not finish"));
}

TEST_F(GroupTest, AFinalizeThatFailsIsTheResultOfCloseThere) {
  job_ = std::make_unique<TestJob>(2);
  job_->world().rules[1].finalize_error = absl::InternalError("flush failed");
  Acquire();
  std::vector<absl::Status> results(2);
  job_->OnEachRank([&](int rank) { results[rank] = leases_[rank].Close(); });
  EXPECT_TRUE(results[0].ok()) << results[0];
  EXPECT_THAT(Message(results[1]), HasSubstr("'train/1' was not closed cleanly: flush failed"));
}

TEST_F(GroupTest, CloseFromManyThreadsHasOneEffectAndOneResult) {
  Start(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] { EXPECT_TRUE(leases_[i % 2].Close().ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(job_->pool(0).statistics().groups_destroyed, 1);
}

// --- abort

TEST_F(GroupTest, AbortWakesABlockedOperationAndTheCauseReachesEveryRank) {
  Start(2);
  absl::Status blocked;
  std::thread rank1([&] { blocked = AllReduce(leases_[1]); });
  job_->world().WaitForOperations(1);
  leases_[0].Abort(absl::DataLossError("label 17 out of range [0, 10)"));
  rank1.join();
  EXPECT_EQ(blocked.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Message(blocked),
            "all_reduce #1 of train/1: rank 0 left: \"label 17 out of range [0, 10)\"");
  EXPECT_EQ(Message(AllReduce(leases_[0])),
            "all_reduce of train/1: rank 0 left: \"label 17 out of range [0, 10)\"");
  EXPECT_EQ(leases_[1].Close(), leases_[0].Close()) << "both ended as the abort says";
}

TEST_F(GroupTest, AfterAnAbortANewGenerationWorksAtOnce) {
  Start(2);
  leases_[0].Abort(absl::CancelledError("enough"));
  EXPECT_FALSE(leases_[1].Close().ok()) << "returns when rank 1 has heard of it";
  leases_.clear();
  Acquire();
  EXPECT_EQ(leases_[0]->id(), "train/2");
  job_->OnEachRank([&](int rank) { EXPECT_TRUE(AllReduce(leases_[rank]).ok()); });
}

TEST_F(GroupTest, AbortFromManyThreadsDuringOperationsHasOneCause) {
  Start(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      while (AllReduce(leases_[rank]).ok()) {
      }
    });
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, rank, i] {
        leases_[rank].Abort(absl::AbortedError(absl::StrCat("by ", rank, ".", i)));
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(leases_[0].Close(), leases_[1].Close());
}

// Found by the thread sanitizer: a race, with another chance each round.
TEST_F(GroupTest, AnAbortMayMeetTheEndOfItsLease) {
  Start(1);
  for (int round = 0; round < 50; ++round) {
    if (round > 0) Acquire();
    std::thread aborts([&] { leases_[0].Abort(absl::AbortedError("enough")); });
    leases_[0].Release();
    aborts.join();
    EXPECT_TRUE(leases_[0].empty());
  }
}

TEST_F(GroupTest, ALeaseThatEndsDuringUnwindingAbortsInsteadOfWaiting) {
  Start(2);
  try {
    GroupLease lease = std::move(leases_[0]);
    throw std::runtime_error("user code");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "user code");
  }
  EXPECT_THAT(Message(AllReduce(leases_[1])), HasSubstr("rank 0 left: \"an exception\""));
}

TEST_F(GroupTest, WhatABackendDoesNotGiveBackIsNamedAsResidue) {
  GroupSpec spec = TestJob::Spec();
  spec.close_timeout = absl::Milliseconds(100);
  job_ = std::make_unique<TestJob>(1);
  job_->world().rules[0].ignores_abort = true;
  job_->world().rules[0].operation_blocks = true;
  Acquire(spec);
  std::thread stuck([&] { EXPECT_FALSE(AllReduce(leases_[0]).ok()); });
  job_->world().WaitForOperations(1);
  leases_[0].Abort(absl::CancelledError("stop"));
  const std::vector<LiveGroup> live = job_->pool(0).LiveGroups();
  ASSERT_EQ(live.size(), 1u);
  EXPECT_EQ(live[0].state, GroupState::kAborted);
  EXPECT_THAT(
      live[0].residue,
      HasSubstr(
          "fake did not give back 1 file descriptor (all_reduce #1 never returned) within 100ms"));
  job_->world().Unblock();
  stuck.join();
  job_->AwaitGivenBack();
}

TEST_F(GroupTest, ABackendThatIgnoresItsDeadlineAndTheAbortIsResidueAndThePeersLearnOfIt) {
  GroupSpec spec = TestJob::Spec();
  spec.operation_timeout = spec.cause_window = absl::Milliseconds(20);
  spec.close_timeout = absl::Milliseconds(100);
  job_ = std::make_unique<TestJob>(2);
  FakeWorld::Rules& rules = job_->world().rules[0];
  rules.operation_blocks = rules.ignores_deadline = rules.ignores_abort = true;
  Acquire(spec);
  absl::Status here;
  std::thread stuck([&] { here = AllReduce(leases_[0]); });
  while (leases_[1]->status().ok()) std::this_thread::yield();
  EXPECT_THAT(Message(AllReduce(leases_[1])), HasSubstr("on rank 0: the backend \"fake\" has not"));
  EXPECT_EQ(leases_[0].Close().code(), absl::StatusCode::kDeadlineExceeded) << "without the caller";
  EXPECT_THAT(Message(leases_[0]->status()), HasSubstr("(all_reduce #1 never returned)"));
  job_->world().Unblock();
  stuck.join();
  EXPECT_THAT(Message(here), HasSubstr("all_reduce #1 of train/1 did not finish within 20ms"));
  job_->AwaitGivenBack();
}

// --- peers

TEST_F(GroupTest, ALostRankIsNamedInThePendingAndInEveryLaterOperation) {
  Start(3);
  std::vector<absl::Status> pending(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] { pending[rank] = AllReduce(leases_[rank]); });
  }
  job_->world().WaitForOperations(2);
  job_->server().DeclareLost(2, "killed by signal 9");
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(pending[rank].code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Message(pending[rank]), HasSubstr("all_reduce #1 of train/1: rank 2 (host "));
    EXPECT_THAT(Message(pending[rank]), HasSubstr("was lost: killed by signal 9"));
    EXPECT_THAT(Message(AllReduce(leases_[rank])), HasSubstr("was lost: killed by signal 9"));
  }
}

TEST_F(GroupTest, ATransportErrorWaitsForItsCause) {
  GroupSpec spec = TestJob::Spec();
  spec.cause_window = absl::Hours(1);  // the cause must come, not the end of the window
  job_ = std::make_unique<TestJob>(3);
  job_->world().rules[0].operation_error =
      absl::UnavailableError("lost contact with rank 1: connection reset");
  Acquire(spec);
  absl::Status failed;
  std::thread rank0([&] { failed = AllReduce(leases_[0]); });
  while (leases_[0]->state() != GroupState::kAborting) std::this_thread::yield();
  job_->server().DeclareLost(2, "killed by signal 9");
  rank0.join();
  EXPECT_THAT(Message(failed), HasSubstr("rank 2 (host ")) << "not rank 1, whose socket was reset";
}

TEST_F(GroupTest, ATransportErrorWithoutACauseIsReportedAsWhatItIs) {
  GroupSpec spec = TestJob::Spec();
  spec.cause_window = absl::Milliseconds(20);
  job_ = std::make_unique<TestJob>(2);
  job_->world().rules[0].operation_error =
      absl::UnavailableError("lost contact with rank 1: connection reset");
  Acquire(spec);
  EXPECT_EQ(
      Message(AllReduce(leases_[0])),
      "all_reduce #1 of train/1: lost contact with rank 1: connection reset (seen by rank 0)");
  EXPECT_THAT(Message(AllReduce(leases_[1])),
              HasSubstr("of train/1: lost contact with rank 1: connection reset (seen by rank 0)"));
}

TEST_F(GroupTest, ClosingAPoolClosesItsGroupsOnEveryRank) {
  Start(2);
  leases_[1].Release();
  std::thread rank1([&] { job_->pool(1).Close(absl::Seconds(5)).IgnoreError(); });
  // The pool's close is collective: rank 0 drains and everything ends clean.
  rank1.join();
  EXPECT_THAT(Message(AllReduce(leases_[0])), HasSubstr("rank 1 closed after #0"));
}

TEST_F(GroupTest, ALostStoreAbortsEveryRankWithinTheBound) {
  Start(2);
  absl::Status pending;
  std::thread rank0([&] { pending = AllReduce(leases_[0]); });
  job_->world().WaitForOperations(1);
  const absl::Time stopped = MonotonicNow();
  job_->server().Stop();
  rank0.join();
  EXPECT_EQ(pending.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(pending), HasSubstr("the store (of this process) was lost"));
  EXPECT_THAT(Message(leases_[1].Close()), HasSubstr("the store (of this process) was lost"));
  EXPECT_LT(MonotonicNow() - stopped, TestJob::Spec().close_timeout);
}

}  // namespace
}  // namespace muster

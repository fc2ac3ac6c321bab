// Cancellation of an Acquire, by another thread, at each of its steps.
#include <atomic>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11): ranks are threads here
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/test_job.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/observe/observer.h"
#include "muster/core/platform/cancellation.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::IsEmpty;

const absl::Status& Enough() {
  static const absl::Status& status = *new absl::Status(absl::StatusCode::kCancelled, "enough");
  return status;
}

// A spec whose set-up nothing but a cancellation ends.
GroupSpec Patient(const std::string& backend = "fake") {
  GroupSpec spec = TestJob::Spec(backend);
  spec.setup_timeout = absl::Hours(1);
  return spec;
}

void AwaitState(GroupPool& pool, GroupState state) {
  while (pool.LiveGroups().empty() || pool.LiveGroups()[0].state != state) {
    std::this_thread::yield();
  }
}

void ExpectTheNextAttemptWorks(TestJob& job) {
  for (auto& lease : job.AcquireAll(TestJob::Spec())) {
    ASSERT_TRUE(lease.ok()) << lease.status();
    lease->Release();
  }
}

TEST(GroupCancelTest, WhileItsRankWaitsForTheOthers) {
  TestJob job(2);
  Cancellation cancellation;
  absl::Status acquired;
  std::thread acquirer([&] { acquired = job.pool(0).Acquire(Patient(), cancellation).status(); });
  AwaitState(job.pool(0), GroupState::kRendezvous);
  EXPECT_TRUE(cancellation.Cancel(Enough()));
  acquirer.join();
  EXPECT_EQ(acquired, absl::CancelledError("rank 0 left: \"enough\""));
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
  ExpectTheNextAttemptWorks(job);
}

TEST(GroupCancelTest, WhileTheBackendConnectsEveryRankLearnsWhoCancelledAndWhy) {
  TestJob job(2);
  job.world().rules[0].connect_blocks = true;  // until it is cancelled
  Cancellation cancellation;
  std::vector<absl::Status> acquired(2);
  std::thread canceller([&] {
    AwaitState(job.pool(0), GroupState::kConnecting);
    cancellation.Cancel(Enough());
  });
  job.OnEachRank([&](int rank) {
    acquired[rank] = rank == 0 ? job.pool(0).Acquire(Patient(), cancellation).status()
                               : job.pool(1).Acquire(Patient()).status();
  });
  canceller.join();
  for (const absl::Status& status : acquired) {
    EXPECT_EQ(status, absl::CancelledError("rank 0 left: \"enough\""));
  }
  EXPECT_EQ(job.world().live(), 0);
  job.world().rules[0].connect_blocks = false;
  ExpectTheNextAttemptWorks(job);
}

TEST(GroupCancelTest, WhileAnotherThreadMakesTheGroupThatOneGoesOn) {
  TestJob job(2);
  std::thread maker([&] { EXPECT_TRUE(job.pool(0).Acquire(Patient()).ok()); });
  AwaitState(job.pool(0), GroupState::kRendezvous);
  Cancellation cancellation;
  absl::Status acquired;
  std::thread waiter([&] { acquired = job.pool(0).Acquire(Patient(), cancellation).status(); });
  cancellation.Cancel(Enough());
  waiter.join();
  EXPECT_EQ(acquired, absl::CancelledError("Acquire of 'train' on rank 0 was cancelled: enough"));
  EXPECT_TRUE(job.pool(1).Acquire(Patient()).ok());
  maker.join();
}

TEST(GroupCancelTest, WhileAReplacementIsVotedOnTheGroupStays) {
  TestJob job(2);
  GroupSpec held = TestJob::Spec();
  held.close_timeout = absl::Seconds(2) * TimeoutScale();  // the holder has half of it to let go
  auto leases = job.AcquireAll(held);
  ASSERT_TRUE(leases[0].ok() && leases[1].ok());
  leases[0]->Release();
  Cancellation cancellation;
  absl::Status acquired;
  std::thread proposer(
      [&] { acquired = job.pool(0).Acquire(Patient("other"), cancellation).status(); });
  cancellation.Cancel(Enough());
  proposer.join();
  EXPECT_EQ(acquired, absl::CancelledError("Acquire of 'train' on rank 0 was cancelled: enough"));
  absl::StatusOr<GroupLease> again = job.pool(0).Acquire(held);  // once the vote has ended
  ASSERT_TRUE(again.ok()) << again.status();
  job.OnEachRank([&](int rank) {
    float value = 1;
    GroupLease& lease = rank == 0 ? *again : *leases[1];
    EXPECT_TRUE(lease->AllReduce(Buffer::Of(value), ReduceOp::kSum).ok());
  });
}

TEST(GroupCancelTest, BeforeItBeginsNothingIsMade) {
  TestJob job(2);
  Cancellation cancellation;
  cancellation.Cancel(Enough());
  EXPECT_EQ(job.pool(0).Acquire(Patient(), cancellation).status(),
            absl::CancelledError("Acquire of 'train' on rank 0 was cancelled: enough"));
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
  ExpectTheNextAttemptWorks(job);
}

TEST(GroupCancelTest, OnceTheGroupIsReadyNothingChanges) {
  TestJob job(1);
  Cancellation cancellation;
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(Patient(), cancellation);
  ASSERT_TRUE(lease.ok()) << lease.status();
  cancellation.Cancel(Enough());
  float value = 1;
  EXPECT_TRUE((*lease)->AllReduce(Buffer::Of(value), ReduceOp::kSum).ok());
  EXPECT_TRUE(lease->Close().ok());
}

// On the control thread, which must not wait.
struct CancelWhenConnecting final : public Observer {
  void OnTransition(const TransitionEvent& event) override {
    if (event.to == GroupState::kConnecting) cancellation.Cancel(Enough());
  }
  Cancellation cancellation;
};

TEST(GroupCancelTest, AnObserverMayCancel) {
  CancelWhenConnecting observer;
  PoolOptions options;
  options.observer = &observer;
  TestJob job(1, options);
  job.world().rules[0].connect_blocks = true;
  EXPECT_EQ(job.pool(0).Acquire(Patient(), observer.cancellation).status(),
            absl::CancelledError("rank 0 left: \"enough\""));
}

// L7: whoever had the group before the cancellation learns of it at the first operation, and the
// next attempt of all ranks works at once.
TEST(GroupCancelTest, AtAnyMomentTheRanksFailAlikeAndTheNextAttemptWorks) {
  TestJob job(2);
  for (int round = 0; round < 100; ++round) {
    Cancellation cancellation;
    std::atomic<int> ready{0};
    std::thread canceller([&] {
      while (ready < 2) std::this_thread::yield();
      for (int i = 0; i < round % 20; ++i) std::this_thread::yield();  // sooner or later
      cancellation.Cancel(Enough());
    });
    job.OnEachRank([&](int rank) {
      ++ready;
      for (int attempt = 0;; ++attempt) {
        absl::StatusOr<GroupLease> lease = rank == 0 && attempt == 0
                                               ? job.pool(0).Acquire(TestJob::Spec(), cancellation)
                                               : job.pool(rank).Acquire(TestJob::Spec());
        float value = 1;
        const absl::Status result =
            lease.ok() ? (*lease)->AllReduce(Buffer::Of(value), ReduceOp::kSum) : lease.status();
        if (result.ok()) {
          EXPECT_EQ(value, 2);
          lease->Close().IgnoreError();
          return;
        }
        EXPECT_EQ(attempt, 0) << result;
        // Aborted on a rank that waited for this one to come: it withdrew.
        EXPECT_TRUE(absl::IsCancelled(result) || absl::IsAborted(result)) << result;
        EXPECT_TRUE(absl::StrContains(result.message(), "enough")) << result;
      }
    });
    canceller.join();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace muster

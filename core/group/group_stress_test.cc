// Every public call on two ranks' pools, groups and leases, from eight threads at once, in an order
// that a seed chooses: each returns within its bounds, with a status that says why, and nothing is
// left. Written for the thread sanitizer; the interleavings are the scheduler's.
//
//   bazel test --config=tsan //core/group:group_stress_test --runs_per_test=20
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11): absl has no thread
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/test_job.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/platform/cancellation.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/split_mix64.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

constexpr int kRanks = 2;
constexpr int kThreads = 8;
constexpr int kSteps = 60;

absl::Duration Scaled(absl::Duration duration) { return TimeoutScale() * duration; }

// A lease, and who uses what it gives: that is there until Release. Abort and Close may come at any
// time.
struct Shared {
  explicit Shared(GroupLease made) : lease(std::move(made)) {}
  absl::Mutex in_use;
  GroupLease lease;
};

// Of one rank: what its threads take from each other.
class Desk {
 public:
  explicit Desk(std::shared_ptr<GroupPool> pool) : pool_(std::move(pool)) {}

  std::shared_ptr<GroupPool> pool() {
    absl::MutexLock lock(&mutex_);
    return pool_;
  }
  void Replace(std::shared_ptr<GroupPool> pool) {
    absl::MutexLock lock(&mutex_);
    pool_.swap(pool);  // the former ends with the last call on it, without the lock
  }
  absl::Mutex& renewing() { return renewing_; }
  void Put(GroupLease lease) {
    auto shared = std::make_shared<Shared>(std::move(lease));
    absl::MutexLock lock(&mutex_);
    leases_.push_back(std::move(shared));
  }
  std::shared_ptr<Shared> Any(SplitMix64& random) {
    absl::MutexLock lock(&mutex_);
    return leases_.empty() ? nullptr : leases_[random.Below(leases_.size())];
  }
  std::shared_ptr<Shared> Take(SplitMix64& random) {
    absl::MutexLock lock(&mutex_);
    if (leases_.empty()) return nullptr;
    std::swap(leases_[random.Below(leases_.size())], leases_.back());
    std::shared_ptr<Shared> taken = std::move(leases_.back());
    leases_.pop_back();
    return taken;
  }
  std::shared_ptr<Cancellation> cancellation() {
    absl::MutexLock lock(&mutex_);
    return cancellation_;
  }
  void NewCancellation() {
    auto fresh = std::make_shared<Cancellation>();
    absl::MutexLock lock(&mutex_);
    cancellation_.swap(fresh);
  }
  void Clear() {
    std::vector<std::shared_ptr<Shared>> leases;
    {
      absl::MutexLock lock(&mutex_);
      leases.swap(leases_);
    }
    leases.clear();
    Replace(nullptr);
  }

 private:
  absl::Mutex renewing_;
  absl::Mutex mutex_;
  std::shared_ptr<GroupPool> pool_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Shared>> leases_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Cancellation> cancellation_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<Cancellation>();
};

class Caller {
 public:
  Caller(TestJob& job, Desk& desk, int rank, uint64_t seed)
      : job_(job), desk_(desk), rank_(rank), random_(seed) {}

  void Run() {
    for (int step = 0; step < kSteps; ++step) {
      const absl::Time began = MonotonicNow();
      const std::string call = Step();
      EXPECT_LT(MonotonicNow() - began, Scaled(absl::Seconds(20))) << call;
    }
  }

 private:
  GroupSpec Spec() {
    GroupSpec spec;
    spec.name = random_.Below(2) == 0 ? "a" : "b";
    spec.backend = random_.Below(4) == 0 ? "other" : "fake";
    spec.setup_timeout = Scaled(absl::Milliseconds(60));
    spec.operation_timeout = Scaled(absl::Milliseconds(40));
    spec.close_timeout = Scaled(absl::Milliseconds(60));
    spec.cause_window = Scaled(absl::Milliseconds(20));
    return spec;
  }

  // What came back: OK, or an error that says something.
  static void Check(const absl::Status& status) {
    EXPECT_TRUE(status.ok() || !status.message().empty()) << status;
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_NE(status.code(), absl::StatusCode::kUnknown) << status;
  }

  void Keep(absl::StatusOr<GroupLease> lease) {
    Check(lease.status());
    if (lease.ok()) desk_.Put(*std::move(lease));
  }

  std::string Step() {
    switch (random_.Below(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
        Keep(desk_.pool()->Acquire(Spec()));
        return "Acquire";
      case 4:
      case 5: {
        const std::shared_ptr<Cancellation> cancellation = desk_.cancellation();
        Keep(desk_.pool()->Acquire(Spec(), *cancellation));
        return "Acquire with a cancellation";
      }
      case 6:
        desk_.cancellation()->Cancel(absl::CancelledError("of the stress test"));
        desk_.NewCancellation();
        return "Cancel";
      case 7:
      case 8:
        if (const auto shared = desk_.Take(random_)) {
          absl::MutexLock lock(&shared->in_use);
          shared->lease.Release();
        }
        return "Release";
      case 9:
        if (const auto shared = desk_.Any(random_)) {
          Check(random_.Below(2) == 0 ? shared->lease.Close()
                                      : shared->lease.Close(Scaled(absl::Milliseconds(50))));
        }
        return "Close";
      case 10:
        if (const auto shared = desk_.Any(random_)) {
          shared->lease.Abort(absl::AbortedError("of the stress test"));
        }
        return "Abort";
      case 11:
        return Ask();
      case 12:
        Check(desk_.pool()->Close(Scaled(absl::Milliseconds(100))));
        Renew();
        return "Close of the pool";
      case 13:
        if (random_.Below(4) != 0) return Ask();
        desk_.pool()->Abort(absl::AbortedError("all of it"));
        Renew();
        return "Abort of the pool";
      default:
        return Operate();
    }
  }

  // In the place of one that has ended. A rank has one session at a time.
  void Renew() {
    absl::MutexLock lock(&desk_.renewing());
    const std::shared_ptr<GroupPool> pool = desk_.pool();
    Cancellation cancelled;
    cancelled.Cancel(absl::CancelledError("only to ask"));
    const absl::Status acquired = pool->Acquire(Spec(), cancelled).status();
    if (!absl::StrContains(acquired.message(), "on a pool that was closed")) return;
    pool->Close(Scaled(absl::Seconds(20))).IgnoreError();  // its end
    desk_.Replace(job_.NewPool(rank_));
  }

  std::string Ask() {
    for (const LiveGroup& group : desk_.pool()->LiveGroups()) {
      EXPECT_FALSE(group.ToString().empty());
    }
    for (const LiveGroup& group : AllLiveGroups()) EXPECT_FALSE(group.name.empty());
    EXPECT_GE(desk_.pool()->statistics().groups_created, 0);
    if (const auto shared = desk_.Any(random_)) {
      absl::ReaderMutexLock lock(&shared->in_use);
      const Group& group = *shared->lease;
      Check(group.status());
      EXPECT_FALSE(group.id() == "" && !shared->lease.empty());
      EXPECT_GE(group.generation(), 0);
      static_cast<void>(group.state());
      static_cast<void>(group.backend());
      static_cast<void>(group.capabilities());
    }
    return "a question";
  }

  std::string Operate() {
    const auto shared = desk_.Any(random_);
    if (shared == nullptr) return "nothing";
    absl::ReaderMutexLock lock(&shared->in_use);
    Group& group = *shared->lease;
    float value = 1;
    switch (random_.Below(4)) {
      case 0:
        Check(group.Barrier());
        return "Barrier";
      case 1: {
        Work work = group.AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);
        static_cast<void>(work.done());
        Check(work.Wait(MonotonicNow() + Scaled(absl::Milliseconds(random_.Below(20)))));
        return "AllReduceAsync";  // its end waits
      }
      default:
        Check(group.AllReduce(Buffer::Of(value), ReduceOp::kSum));
        return "AllReduce";
    }
  }

  TestJob& job_;
  Desk& desk_;
  const int rank_;
  SplitMix64 random_;
};

class GroupStressTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(GroupStressTest, EveryCallReturnsInItsBoundsAndNothingIsLeft) {
  TestJob job(kRanks);
  std::vector<std::unique_ptr<Desk>> desks;
  for (int rank = 0; rank < kRanks; ++rank) {
    job.DestroyPool(rank);
    desks.push_back(std::make_unique<Desk>(job.NewPool(rank)));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const int rank = i % kRanks;
      Caller(job, *desks[rank], rank, GetParam() * kThreads + i).Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  job.OnEachRank([&](int rank) { desks[rank]->Clear(); });
  // What came back too late for the short bounds here ends on a thread of its own.
  job.AwaitGivenBack();
  EXPECT_THAT(AllLiveGroups(), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, GroupStressTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace muster

// A job for the tests of this folder: ranks are threads of one process, each with its pool, over
// one memory store and fake backends.
#ifndef MUSTER_CORE_GROUP_TEST_JOB_H_
#define MUSTER_CORE_GROUP_TEST_JOB_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>  // NOLINT: ranks are threads here
#include <vector>

#include "gtest/gtest.h"
#include "muster/core/group/fake_backend.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/in_process_pool.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/store/memory_store.h"

namespace muster {

class TestJob {
 public:
  explicit TestJob(int size, PoolOptions options = {}) : server_({size}), size_(size) {
    backends_.Register("fake", std::make_unique<FakeBackend>("fake", &world_), __FILE__, __LINE__);
    backends_.Register("other", std::make_unique<FakeBackend>("other", &world_), __FILE__,
                       __LINE__);
    options.backends = &backends_;
    options_ = options;
    for (int rank = 0; rank < size; ++rank) pools_.push_back(NewPool(rank));
  }

  // What a backend gives back late, on a thread of its own, still uses the world.
  ~TestJob() {
    world_.Unblock();
    pools_.clear();
    const absl::Time deadline = MonotonicNow() + absl::Seconds(10) * TimeoutScale();
    while (world_.live() > 0 && MonotonicNow() < deadline) std::this_thread::yield();
    EXPECT_EQ(world_.live(), 0) << "communicators are left";
  }
  TestJob(const TestJob&) = delete;
  TestJob& operator=(const TestJob&) = delete;

  std::unique_ptr<GroupPool> NewPool(int rank) {
    absl::StatusOr<std::unique_ptr<GroupPool>> pool =
        CreateInProcessPool(rank, size_, server_, options_);
    EXPECT_TRUE(pool.ok()) << pool.status();
    return pool.ok() ? *std::move(pool) : nullptr;
  }

  // Runs `body` on a thread a rank and waits for all.
  void OnEachRank(const std::function<void(int rank)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) threads.emplace_back([&body, rank] { body(rank); });
    for (std::thread& thread : threads) thread.join();
  }

  // Acquires on every rank at once.
  std::vector<absl::StatusOr<GroupLease>> AcquireAll(const GroupSpec& spec) {
    std::vector<absl::StatusOr<GroupLease>> leases(size_);
    OnEachRank([&](int rank) { leases[rank] = pool(rank).Acquire(spec); });
    return leases;
  }

  static GroupSpec Spec(const std::string& backend = "fake") {
    GroupSpec spec;
    spec.name = "train";
    spec.backend = backend;
    spec.setup_timeout = spec.operation_timeout = absl::Seconds(10) * TimeoutScale();
    spec.close_timeout = absl::Seconds(5) * TimeoutScale();
    return spec;
  }

  // What was left behind and has come back ends on a thread of its own: waits for it.
  void AwaitGivenBack() const {
    const absl::Time deadline = MonotonicNow() + absl::Seconds(10) * TimeoutScale();
    while ((world_.live() > 0 || !AllLiveGroups().empty()) && MonotonicNow() < deadline) {
      std::this_thread::yield();
    }
  }

  int size() const { return size_; }
  GroupPool& pool(int rank) { return *pools_[rank]; }
  void DestroyPool(int rank) { pools_[rank].reset(); }
  MemoryStoreServer& server() { return server_; }
  FakeWorld& world() { return world_; }

 private:
  FakeWorld world_;
  BackendRegistry backends_;
  MemoryStoreServer server_;
  PoolOptions options_;
  const int size_;
  std::vector<std::unique_ptr<GroupPool>> pools_;
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_TEST_JOB_H_

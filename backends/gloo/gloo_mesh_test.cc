// The connections without the communicators: what gloo's thread finds wrong, and who waits for it.
#include "muster/backends/gloo/gloo_mesh.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gloo/common/error.h"
#include "gtest/gtest.h"
#include "muster/backends/gloo/gloo_calls.h"
#include "muster/backends/gloo/gloo_exchange.h"
#include "muster/backends/gloo/gloo_test_ranks.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/observed_thread.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/memory_connect_store.h"

namespace muster {
namespace {

// A thread that catches an exception stops there, until it may go on.
struct StopAtCatch {
  explicit StopAtCatch(int task) : task(task) { current = this; }
  ~StopAtCatch() { current = nullptr; }
  static inline std::atomic<StopAtCatch*> current{nullptr};
  const int task;
  absl::Notification stopped;
  absl::Notification go_on;
};

// Where not, gloo's event loop waits this long for news, and not 10 ms.
std::atomic<bool> turns_by_itself{true};
constexpr int kLongWait = 20000;

}  // namespace
}  // namespace muster

// In the place of the system's library's own, which it calls.
extern "C" int epoll_wait(int epoll, epoll_event* events, int count, int timeout) {
  static const auto wait =
      reinterpret_cast<int (*)(int, epoll_event*, int, int)>(dlsym(RTLD_NEXT, "epoll_wait"));
  return wait(epoll, events, count, muster::turns_by_itself ? timeout : muster::kLongWait);
}

// In the place of the C++ library's own, which it calls: here begins every catch clause.
extern "C" void* __cxa_begin_catch(void* exception) noexcept {
  static const auto begin_catch =
      reinterpret_cast<void* (*)(void*)>(dlsym(RTLD_NEXT, "__cxa_begin_catch"));
  muster::StopAtCatch* const stop = muster::StopAtCatch::current;
  if (stop != nullptr && syscall(SYS_gettid) == stop->task && !stop->stopped.HasBeenNotified()) {
    stop->stopped.Notify();
    stop->go_on.WaitForNotification();
  }
  return begin_catch(exception);
}

namespace muster {
namespace {

absl::Time Later() { return MonotonicNow() + TimeoutScale() * absl::Seconds(20); }

// Without the communicators, which give messages that do not fit different slots.
class GlooMeshTest : public ::testing::Test {
 protected:
  absl::Status Connect(int rank, ConnectStore* store) {
    ConnectContext context;
    context.rank = rank;
    context.size = 2;
    context.store = store;
    context.deadline = Later();
    absl::StatusOr<std::unique_ptr<GlooMesh>> made = GlooMesh::Connect(context);
    if (!made.ok()) return made.status();
    meshes_[static_cast<size_t>(rank)] = *std::move(made);
    return absl::OkStatus();
  }
  void ConnectBoth() {
    testing::MemoryConnectHub hub(2);
    const absl::StatusOr<int> last_loop = ConnectGlooRanks(
        hub, 2, Later(), [this](int rank, ConnectStore* store) { return Connect(rank, store); });
    ASSERT_TRUE(last_loop.ok()) << last_loop.status();
    last_loop_ = *last_loop;
  }
  // Rank 0 sends twice as much as rank 1 takes. What rank 1 says of it.
  absl::Status Overflow() {
    uint64_t more[2] = {};
    uint64_t less = 0;
    std::thread sender([&] {
      EXPECT_THROW(GlooExchange(*meshes_[0], {{1, kSlot, more, sizeof(more)}},
                                {{1, kSlot, more, sizeof(more)}}),
                   ::gloo::IoException);
    });
    absl::Status status;
    try {
      GlooExchange(*meshes_[1], {}, {{0, kSlot, &less, sizeof(less)}});
    } catch (const std::exception& e) {
      status = meshes_[1]->Explain(e.what(), Later());
    }
    meshes_[1]->Cut();
    sender.join();
    return status;
  }

  static constexpr uint64_t kSlot = 7;
  std::unique_ptr<GlooMesh> meshes_[2];
  int last_loop_ = 0;  // gloo's thread of rank 1
};

// It is found on gloo's thread: the exception ended the process.
TEST_F(GlooMeshTest, APeerThatSendsMoreThanWasAskedForIsNoLostPeer) {
  ConnectBoth();
  meshes_[1]->calls().Begin({GlooCall::Kind::kBroadcast, DataType::kI64, ReduceOp::kSum, 0, 1});
  EXPECT_EQ(Overflow(),
            absl::FailedPreconditionError(
                "the ranks called operations that do not fit: rank 1 called broadcast of i64[1] "
                "from rank 0, and a peer sent more bytes than that takes"));
}

// What cuts the connections then gets the lock of the one that fails, or waits for it. gloo's
// thread waited for that lock, too, and whoever had it for gloo's thread.
TEST_F(GlooMeshTest, ACutWhileAConnectionFailsHoldsUpNobody) {
  ConnectBoth();
  StopAtCatch stop(last_loop_);
  std::thread ranks([&] { EXPECT_FALSE(Overflow().ok()); });
  stop.stopped.WaitForNotification();  // with the mismatch
  ObservedThread cutter([&] { meshes_[1]->Cut(); });
  EXPECT_TRUE(cutter.AwaitAsleep(Later()));
  stop.go_on.Notify();
  cutter.join();
  ranks.join();
}

TEST_F(GlooMeshTest, WhoEndsAMeshWaitsForNoTurnOfTheEventLoop) {
  turns_by_itself = false;
  ConnectBoth();
  const absl::Time begin = MonotonicNow();
  for (std::unique_ptr<GlooMesh>& mesh : meshes_) mesh.reset();
  EXPECT_LT(MonotonicNow() - begin, absl::Milliseconds(kLongWait) / 2);
  turns_by_itself = true;
}

// The store of a rank, and how much that rank publishes in it.
class MeasuringStore final : public ConnectStore {
 public:
  explicit MeasuringStore(ConnectStore* store) : store_(store) {}
  absl::Status Set(absl::string_view key, absl::string_view value) override {
    published_ += value.size();
    return store_->Set(key, value);
  }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    return store_->Get(key, deadline);
  }
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key, absl::string_view value,
                                                    absl::Time deadline) override {
    published_ += value.size();
    return store_->Exchange(key, value, deadline);
  }
  size_t published() const { return published_; }

 private:
  ConnectStore* const store_;
  size_t published_ = 0;
};

// The store holds what all of them publish and sends it to each.
TEST(GlooMeshSizeTest, WhatARankPublishesDoesNotGrowWithTheNumberOfRanks) {
  std::vector<size_t> published;
  for (const int size : {2, 7}) {
    testing::MemoryConnectHub hub(size);
    std::vector<std::unique_ptr<GlooMesh>> meshes(static_cast<size_t>(size));
    std::atomic<size_t> of_rank_1{0};
    const absl::StatusOr<int> connected =
        ConnectGlooRanks(hub, size, Later(), [&](int rank, ConnectStore* store) -> absl::Status {
          MeasuringStore measuring(store);
          ConnectContext context;
          context.rank = rank;
          context.size = size;
          context.store = &measuring;
          context.deadline = Later();
          absl::StatusOr<std::unique_ptr<GlooMesh>> made = GlooMesh::Connect(context);
          if (!made.ok()) return made.status();
          meshes[static_cast<size_t>(rank)] = *std::move(made);
          if (rank == 1) of_rank_1 = measuring.published();
          return absl::OkStatus();
        });
    ASSERT_TRUE(connected.ok()) << connected.status();
    published.push_back(of_rank_1);
  }
  EXPECT_GT(published[0], 0u);
  EXPECT_EQ(published[0], published[1]);
}

}  // namespace
}  // namespace muster

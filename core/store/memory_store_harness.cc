#include <map>
#include <utility>

#include "gtest/gtest.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/memory_store.h"
#include "muster/core/store/store_harness.h"

namespace muster::store_testing {
namespace {

class MemoryHarness final : public StoreHarness {
 public:
  explicit MemoryHarness(int world_size)
      : server_(MemoryStoreServer::Options{world_size, absl::ZeroDuration()}) {}

  absl::StatusOr<std::unique_ptr<Store>> Connect(const SessionInfo& info) override {
    return server_.Connect(info, executor(info.rank));
  }

  Executor* executor(int rank) override {
    std::unique_ptr<ControlThread>& control = controls_[rank];
    if (control == nullptr) {
      auto started = ControlThread::Start();
      EXPECT_TRUE(started.ok()) << started.status();
      control = *std::move(started);
    }
    return control.get();
  }

  void DeclareLost(int rank, absl::string_view reason) override {
    server_.DeclareLost(rank, reason);
  }
  void Kill(int rank) override { server_.DropSession(rank); }
  void StopServer() override { server_.Stop(); }

 private:
  std::map<int, std::unique_ptr<ControlThread>> controls_;
  MemoryStoreServer server_;
};

}  // namespace

std::unique_ptr<StoreHarness> MakeMemoryHarness(int world_size) {
  return std::make_unique<MemoryHarness>(world_size);
}

}  // namespace muster::store_testing

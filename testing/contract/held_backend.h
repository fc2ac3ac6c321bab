// A real backend that can be held at one of its steps, so that a process can end while its group is
// in the state that this step belongs to.
#ifndef MUSTER_TESTING_CONTRACT_HELD_BACKEND_H_
#define MUSTER_TESTING_CONTRACT_HELD_BACKEND_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"

namespace muster::testing {

// All-reduce alone, for one group in a process.
class HeldBackend final : public Backend {
 public:
  enum class Hold {
    kNothing,
    kConnect,    // before the first step of it, until it is cancelled
    kConnected,  // after the last step of it, until it is cancelled
    kOperation,  // before the first step of it, until an abort
    kFinalize,   // until an abort
    kAbort,      // until LetGo
  };

  // `inner` outlives it. `reached` is told of each step that is reached, held there or not, on the
  // thread that takes it.
  HeldBackend(Backend* inner, Hold hold, std::function<void(Hold)> reached = nullptr)
      : inner_(inner), hold_(hold), reached_(std::move(reached)) {}

  absl::string_view name() const override { return "held"; }
  Capabilities capabilities() const override { return {Capability::kAllReduce}; }
  absl::Status Check(Device device,
                     const std::map<std::string, std::string>& options) const override {
    return inner_->Check(device, options);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const ConnectContext& context) override;

  // Returns once an operation is inside.
  void AwaitOperation() { entered_.WaitForNotification(); }
  void LetGo() { let_go_.Notify(); }

 private:
  class HeldCommunicator;

  // At `step`: whether to be held.
  bool Reach(Hold step) const;

  Backend* const inner_;
  const Hold hold_;
  const std::function<void(Hold)> reached_;
  absl::Notification entered_;
  absl::Notification let_go_;
};

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_HELD_BACKEND_H_

#include "muster/testing/contract/held_backend.h"

#include <utility>

#include "absl/time/time.h"
#include "muster/core/platform/cancellation.h"

namespace muster::testing {

class HeldBackend::HeldCommunicator final : public Communicator {
 public:
  HeldCommunicator(HeldBackend* backend, std::unique_ptr<Communicator> inner)
      : backend_(backend), inner_(std::move(inner)) {}

  absl::Status AllReduce(ConstBuffer in, Buffer out, ReduceOp op,
                         const OperationOptions& options) override {
    if (!backend_->entered_.HasBeenNotified()) backend_->entered_.Notify();
    if (!backend_->Reach(Hold::kOperation)) return inner_->AllReduce(in, out, op, options);
    aborted_.WaitForNotification();
    return absl::CancelledError("held in AllReduce");
  }

  absl::Status Finalize(absl::Time deadline) override {
    if (!backend_->Reach(Hold::kFinalize)) return inner_->Finalize(deadline);
    aborted_.WaitForNotification();
    return absl::CancelledError("held in Finalize");
  }

  void Abort(const absl::Status& cause) noexcept override {
    if (backend_->hold_ == Hold::kAbort) backend_->let_go_.WaitForNotification();
    inner_->Abort(cause);
    if (!aborted_.HasBeenNotified()) aborted_.Notify();
  }

  Holdings Held() const override { return inner_->Held(); }

 private:
  HeldBackend* const backend_;
  const std::unique_ptr<Communicator> inner_;
  absl::Notification aborted_;
};

bool HeldBackend::Reach(Hold step) const {
  if (reached_ != nullptr) reached_(step);
  return hold_ == step;
}

absl::StatusOr<std::unique_ptr<Communicator>> HeldBackend::Connect(const ConnectContext& context) {
  absl::Notification cancelled;
  auto on_cancel =
      context.cancellation->OnCancel([&cancelled](const absl::Status&) { cancelled.Notify(); });
  const auto hold = [&] {
    cancelled.WaitForNotification();
    return context.cancellation->status();
  };
  if (Reach(Hold::kConnect)) return hold();
  absl::StatusOr<std::unique_ptr<Communicator>> inner = inner_->Connect(context);
  if (!inner.ok()) return inner.status();
  if (Reach(Hold::kConnected)) return hold();  // the communicator's end is its abort
  return std::make_unique<HeldCommunicator>(this, *std::move(inner));
}

}  // namespace muster::testing

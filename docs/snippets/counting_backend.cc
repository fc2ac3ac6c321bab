// docs/write_a_backend.md: a backend of your own. It counts what another one moves, and says so in
// the log when its group ends.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/device.h"
#include "muster/core/collective/reduce_op.h"

namespace app {

class CountingCommunicator : public muster::Communicator {
 public:
  CountingCommunicator(std::string group, std::unique_ptr<muster::Communicator> inner)
      : group_(std::move(group)), inner_(std::move(inner)) {}

  absl::Status AllReduce(muster::ConstBuffer in, muster::Buffer out, muster::ReduceOp op,
                         const muster::OperationOptions& options) override {
    Count(in.bytes());
    return inner_->AllReduce(in, out, op, options);
  }
  absl::Status Barrier(const muster::OperationOptions& options) override {
    Count(0);
    return inner_->Barrier(options);
  }

  absl::Status Finalize(absl::Time deadline) override {
    LOG(INFO) << group_ << ": " << operations_ << " operations, " << bytes_ << " bytes";
    return inner_->Finalize(deadline);
  }
  void Abort(const absl::Status& cause) noexcept override { inner_->Abort(cause); }
  muster::Holdings Held() const override { return inner_->Held(); }

 private:
  void Count(int64_t bytes) {
    ++operations_;
    bytes_ += bytes;
  }

  const std::string group_;
  const std::unique_ptr<muster::Communicator> inner_;
  std::atomic<int64_t> operations_{0};  // operations come from any thread, one at a time
  std::atomic<int64_t> bytes_{0};
};

class CountingBackend : public muster::Backend {
 public:
  absl::string_view name() const override { return "counting"; }

  muster::Capabilities capabilities() const override {
    return {muster::Capability::kAllReduce, muster::Capability::kBarrier};
  }

  absl::Status Check(muster::Device device,
                     const std::map<std::string, std::string>& options) const override {
    for (const auto& [option, value] : options) {
      if (option != "over") {
        return absl::InvalidArgumentError(absl::StrCat("the backend \"counting\" has no option \"",
                                                       option, "\": it has \"over\""));
      }
    }
    absl::StatusOr<muster::Backend*> inner = Inner(options);
    if (!inner.ok()) return inner.status();
    return (*inner)->Check(device, {});
  }

  absl::StatusOr<std::unique_ptr<muster::Communicator>> Connect(
      const muster::ConnectContext& context) override {
    absl::Status status = Check(context.device, context.options);
    if (!status.ok()) return status;
    muster::ConnectContext inner_context = context;
    inner_context.options.clear();
    absl::StatusOr<std::unique_ptr<muster::Communicator>> inner =
        (*Inner(context.options))->Connect(inner_context);
    if (!inner.ok()) return inner.status();
    return std::make_unique<CountingCommunicator>(context.group, *std::move(inner));
  }

 private:
  static absl::StatusOr<muster::Backend*> Inner(const std::map<std::string, std::string>& options) {
    const auto over = options.find("over");
    return muster::BackendRegistry::Global().Find(over == options.end() ? "reference"
                                                                        : over->second);
  }
};

MUSTER_REGISTER_BACKEND("counting", CountingBackend);

}  // namespace app

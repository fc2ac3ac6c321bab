#include "muster/backends/gloo/gloo_backend.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "muster/backends/gloo/gloo_communicator.h"
#include "muster/backends/gloo/gloo_mesh.h"
#include "muster/backends/gloo/gloo_options.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/device.h"
#include "muster/core/platform/cancellation.h"

namespace muster {

MUSTER_REGISTER_BACKEND("gloo", GlooBackend);

Capabilities GlooBackend::capabilities() const {
  return {Capability::kAllReduce,  Capability::kBroadcast,     Capability::kReduce,
          Capability::kAllGather,  Capability::kGather,        Capability::kScatter,
          Capability::kAllToAll,   Capability::kReduceScatter, Capability::kBarrier,
          Capability::kSendReceive};
}

absl::Status GlooBackend::Check(Device device,
                                const std::map<std::string, std::string>& options) const {
  if (device.type != Device::Type::kCpu) {
    return absl::InvalidArgumentError(
        absl::StrCat("the backend \"gloo\" works on cpu, not on ", device.ToString()));
  }
  return GlooOptions::Parse(options).status();
}

absl::StatusOr<std::unique_ptr<Communicator>> GlooBackend::Connect(const ConnectContext& context) {
  if (absl::Status status = Check(context.device, context.options); !status.ok()) return status;
  absl::StatusOr<GlooOptions> options = GlooOptions::Parse(context.options);
  if (!options.ok()) return options.status();
  if (context.cancellation != nullptr && context.cancellation->cancelled()) {
    return context.cancellation->status();
  }
  std::unique_ptr<GlooMesh> mesh;
  if (context.size > 1) {
    absl::StatusOr<std::unique_ptr<GlooMesh>> connected = GlooMesh::Connect(context);
    if (!connected.ok()) return connected.status();
    mesh = *std::move(connected);
  }
  return std::make_unique<GlooCommunicator>(context.rank, context.size, *options, std::move(mesh));
}

}  // namespace muster

#include "muster/backends/reference/reference_backend.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "muster/backends/reference/descriptor.h"
#include "muster/backends/reference/interrupt.h"
#include "muster/backends/reference/mesh.h"
#include "muster/backends/reference/reference_communicator.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/device.h"
#include "muster/core/platform/cancellation.h"

namespace muster {

using reference::Descriptor;
using reference::Interrupt;
using reference::Meeting;
using reference::ReferenceCommunicator;

MUSTER_REGISTER_BACKEND("reference", ReferenceBackend);

Capabilities ReferenceBackend::capabilities() const {
  return {Capability::kAllReduce,     Capability::kBroadcast, Capability::kReduce,
          Capability::kAllGather,     Capability::kGather,    Capability::kScatter,
          Capability::kReduceScatter, Capability::kAllToAll,  Capability::kBarrier,
          Capability::kSendReceive,   Capability::kSplit};
}

absl::Status ReferenceBackend::Check(Device device,
                                     const std::map<std::string, std::string>& options) const {
  if (device.type != Device::Type::kCpu) {
    return absl::InvalidArgumentError(
        absl::StrCat("the backend \"reference\" works on cpu, not on ", device.ToString()));
  }
  if (!options.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the backend \"reference\" has no option \"",
                                                   options.begin()->first, "\": it has none"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> ReferenceBackend::Connect(
    const ConnectContext& context) {
  if (absl::Status status = Check(context.device, context.options); !status.ok()) return status;

  auto interrupt = std::make_unique<Interrupt>();
  Cancellation::Registration registration;  // ends before `interrupt`, also on every way out
  if (context.cancellation != nullptr) {
    registration = context.cancellation->OnCancel(
        [&interrupt](const absl::Status& cause) { interrupt->Raise(cause); });
  }
  std::vector<Descriptor> links(1);
  if (context.size > 1) {
    if (absl::Status status = interrupt->Open(); !status.ok()) return status;
    absl::StatusOr<Meeting> meeting = Meeting::Open(context.bind_address);
    if (!meeting.ok()) return meeting.status();
    absl::StatusOr<std::vector<std::string>> invitations =
        context.store->Exchange("reference", meeting->invitation(), context.deadline);
    if (!invitations.ok()) return invitations.status();
    absl::StatusOr<std::vector<Descriptor>> met =
        meeting->Meet(context.rank, *invitations, *interrupt, context.deadline);
    if (!met.ok()) return met.status();
    links = *std::move(met);
  }
  registration.Reset();
  if (absl::Status cause = interrupt->cause(); !cause.ok()) return cause;
  return std::make_unique<ReferenceCommunicator>(context.rank, std::move(links),
                                                 std::move(interrupt));
}

}  // namespace muster

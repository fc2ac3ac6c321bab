// The backend "reference": plain sockets, plain loops, every collective and every type. It is the
// oracle that other backends are compared with, and the example of how to write one. It is not
// fast.
//
//   spec.backend = "reference";   // deps: ["@muster//backends:reference"]; no options; CPU only
//
// How it works, from the outside in; each file is short:
//   reference_backend       Connect: opens a port, gives its address to the other ranks, meets them
//   mesh                    the handshake: one connection between each two ranks, strangers dropped
//   reference_communicator  a collective is a star: all ranks send rank 0 what they give, rank 0
//                           computes, all ranks get what they take; and how everything ends
//   frame                   what precedes the bytes: the call, so that ranks that disagree learn it
//   star                    what each collective means, as loops over bytes, without a socket
//   flow                    the one place that waits: for sockets, the deadline, or the interrupt
//   interrupt, descriptor   how Abort wakes that wait; who closes a descriptor
//
// Write your own: a Backend with Connect, a Communicator, one cc_library with alwayslink, and
// backend_conformance_test (//testing:backend_conformance_test.bzl) to see what it does not keep
// yet.
#ifndef MUSTER_BACKENDS_REFERENCE_REFERENCE_BACKEND_H_
#define MUSTER_BACKENDS_REFERENCE_REFERENCE_BACKEND_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/collective/backend.h"

namespace muster {

// Thread-safe.
class ReferenceBackend : public Backend {
 public:
  absl::string_view name() const override { return "reference"; }
  Capabilities capabilities() const override;
  absl::Status Check(Device device,
                     const std::map<std::string, std::string>& options) const override;
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const ConnectContext& context) override;
};

}  // namespace muster

#endif  // MUSTER_BACKENDS_REFERENCE_REFERENCE_BACKEND_H_

// The backend "gloo": the CPU collectives of https://github.com/pytorch/gloo over its TCP
// transport.
//
//   spec.backend = "gloo";            // deps: ["@muster//backends:gloo"]; CPU only
//   spec.backend_options = {{"all_reduce", "bcube"}};
//
// Options, all optional; the same on all ranks:
//   all_reduce      "ring" (default) or "bcube": gloo's algorithm. The ring moves the fewest bytes,
//                   bcube takes fewer steps for small buffers.
//   segment_bytes   1024 to 1073741824, default 1048576: how much of an all_reduce is under way at
//                   a time.
//
// What is gloo's and what is ours: all_reduce, broadcast, all_gather and barrier are gloo's
// algorithms; reductions use core/collective/reduction.h, so f16 and bf16 accumulate in f32 and are
// rounded once. The others are plain exchanges over gloo's transport. How it connects, ends and
// counts what it holds is ours (gloo_mesh.h), by way of the patches in third_party/gloo/patches.
//
// Ranks that call different operations: their messages do not meet (but for one pair of calls in
// 2^32, by chance), and ranks that have waited for half a second compare their calls
// (gloo_calls.h).
//
// A communicator has one thread (gloo's event loop) and a connection to each other rank. The
// traffic is neither encrypted nor authenticated: whoever reaches the ports on `bind_address` can
// disturb it.
//
// gloo is compiled into a namespace of its own (muster_gloo): libtorch brings another copy.
#ifndef MUSTER_BACKENDS_GLOO_GLOO_BACKEND_H_
#define MUSTER_BACKENDS_GLOO_GLOO_BACKEND_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/collective/backend.h"

namespace muster {

// Thread-safe.
class GlooBackend : public Backend {
 public:
  absl::string_view name() const override { return "gloo"; }
  Capabilities capabilities() const override;
  absl::Status Check(Device device,
                     const std::map<std::string, std::string>& options) const override;
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const ConnectContext& context) override;
};

}  // namespace muster

#endif  // MUSTER_BACKENDS_GLOO_GLOO_BACKEND_H_

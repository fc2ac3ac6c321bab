// The connections of a gloo communicator: how they come to be, how they are cut, how they are given
// back. All of gloo's exceptions end here or in gloo_communicator.cc.
#ifndef MUSTER_BACKENDS_GLOO_GLOO_MESH_H_
#define MUSTER_BACKENDS_GLOO_GLOO_MESH_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gloo/context.h"
#include "gloo/transport/tcp/address.h"
#include "gloo/transport/tcp/context.h"
#include "gloo/transport/tcp/device.h"
#include "muster/backends/gloo/gloo_calls.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/platform/fork_guard.h"

namespace muster {

// One gloo device (an event loop on a thread, a listening socket) and a connection to each other
// rank. The destructor gives everything back; it takes tens of milliseconds at most and waits for
// no peer.
class GlooMesh {
 public:
  // Collective. Returns only when all ranks are connected with all others, so that a rank may go at
  // once without taking a connection away from one that is still at it. `context.size` is above 1.
  static absl::StatusOr<std::unique_ptr<GlooMesh>> Connect(const ConnectContext& context);

  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  // What gloo's collectives take.
  const std::shared_ptr<::gloo::Context>& context() const { return context_; }

  // Bounds all waits of the next operation together. Between operations.
  void SetDeadline(absl::Time deadline);

  // What the ranks called. An operation that waits for long tells the peers, and ends when one of
  // them called what does not fit.
  GlooCalls& calls() { return calls_; }

  bool overdue() const;  // the deadline has passed

  // Tells Explain which peers the operation still waits for, in ascending order: gloo's own
  // algorithms do not say. On the thread of the operation.
  void SetAwaited(std::vector<int> peers) { awaited_ = std::move(peers); }

  // Ends every connection: peers notice, what waits is woken. From any thread. Bounded: each
  // connection takes at most one turn of the event loop, 10 ms.
  void Cut() noexcept;

  // What an exception of gloo means: FailedPrecondition when a peer called what does not fit,
  // DeadlineExceeded when `deadline` has passed, else Unavailable with the ranks whose connections
  // have ended.
  absl::Status Explain(const std::string& what, absl::Time deadline);

  Holdings Held() const;

 private:
  // gloo's own contexts are made by its rendezvous, which cannot be cancelled.
  class Context;

  GlooMesh(int rank, int size) : rank_(rank), size_(size), calls_(rank, size) {}
  void Open(const std::string& bind_address);
  using Address = ::gloo::transport::tcp::Address;
  // Where the pair of `owner` with `peer` is reached; `first` is that of the first of its pairs.
  static Address AddressFor(const Address& first, int owner, int peer);
  // Of this rank, as bytes. Internal when the others do not follow from it.
  absl::StatusOr<std::string> FirstAddress() const;
  void ConnectPairs(const std::vector<std::string>& addresses);  // the first one of each rank
  int DescriptorOf(int peer) const;                              // -1 before it is connected
  // Of an operation that waits: when to look again. Throws what Explain knows.
  std::chrono::steady_clock::time_point LookAround();

  const int rank_;
  const int size_;
  GlooCalls calls_;  // before gloo's thread, which writes to it
  std::shared_ptr<::gloo::transport::tcp::Device> device_;
  std::shared_ptr<::gloo::transport::tcp::Context> transport_;
  std::shared_ptr<::gloo::Context> context_;
  std::vector<ForkGuardedFd> guards_;
  absl::Time deadline_ = absl::InfiniteFuture();
  std::vector<int> awaited_;
  bool told_ = false;  // the peers, what this operation is
  std::chrono::steady_clock::time_point tell_at_;
};

}  // namespace muster

#endif  // MUSTER_BACKENDS_GLOO_GLOO_MESH_H_

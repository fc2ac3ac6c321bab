// The seam between a group and what moves its bytes: what a backend implements, and all that it
// implements.
//
// A backend promises little: `Backend::Connect` builds a `Communicator`; the communicator does the
// collectives that its capabilities list, ends by `Finalize` or by `Abort`, and counts what it
// still holds. The group above it owns the life: it numbers operations, hands them over one at a
// time, watches deadlines, agrees on closing and decides who is to blame. Everything else is
// Unimplemented by default, so a backend grows without a change here.
// `//testing:backend_conformance` checks a backend against this page.
#ifndef MUSTER_CORE_COLLECTIVE_COMMUNICATOR_H_
#define MUSTER_CORE_COLLECTIVE_COMMUNICATOR_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/reduce_op.h"

namespace muster {

// What a backend can do. One bit each.
enum class Capability : uint32_t {
  kAllReduce = 1u << 0,
  kBroadcast = 1u << 1,
  kReduce = 1u << 2,
  kAllGather = 1u << 3,
  kGather = 1u << 4,
  kScatter = 1u << 5,
  kReduceScatter = 1u << 6,
  kAllToAll = 1u << 7,
  kBarrier = 1u << 8,
  kSendReceive = 1u << 9,
  kSplit = 1u << 10,
  kAllocate = 1u << 11,
  kRegister = 1u << 12,
};

class Capabilities {
 public:
  constexpr Capabilities() = default;
  constexpr Capabilities(std::initializer_list<Capability> list) {
    for (Capability c : list) bits_ |= static_cast<uint32_t>(c);
  }
  constexpr bool Has(Capability c) const { return (bits_ & static_cast<uint32_t>(c)) != 0; }
  constexpr bool operator==(const Capabilities& other) const { return bits_ == other.bits_; }
  constexpr bool operator!=(const Capabilities& other) const { return bits_ != other.bits_; }
  // "all_reduce, broadcast, barrier"; "nothing"
  std::string ToString() const;
  // What ToString() writes, in any order, also without spaces and, for nothing, empty.
  // InvalidArgument for another word, with all that there are.
  static absl::StatusOr<Capabilities> Parse(absl::string_view list);

 private:
  uint32_t bits_ = 0;
};

// "all_reduce", "broadcast", ...
absl::string_view Name(Capability capability);

// Where an operation is ordered. On a CPU nothing; on a device the stream (cudaStream_t) whose
// earlier work it follows.
struct ExecutionContext {
  void* stream = nullptr;
};

struct OperationOptions {
  // DeadlineExceeded after it; the communicator is then good for Abort only, which the group calls
  // a little later by itself when the operation has not returned.
  absl::Time deadline = absl::InfiniteFuture();
  ExecutionContext context;
};

// What an object still holds: the group's proof that nothing is left (L2). All zero after Finalize
// or Abort.
struct Holdings {
  int64_t file_descriptors = 0;
  int64_t threads = 0;
  int64_t memory_segments = 0;  // shared-memory segments
  int64_t device_objects = 0;   // communicators, streams, events
  int64_t device_bytes = 0;

  bool empty() const {
    return file_descriptors == 0 && threads == 0 && memory_segments == 0 && device_objects == 0 &&
           device_bytes == 0;
  }
  std::string ToString() const;  // "2 file descriptors, 1 thread"; "nothing"
};

// One step of point-to-point traffic, for a batch that progresses together.
struct PeerTransfer {
  enum class Kind { kSend, kReceive };
  Kind kind = Kind::kSend;
  int peer = 0;
  Buffer buffer;  // only read for kSend
};

class Communicator;
struct ConnectContext;

// Memory that the backend moves without a copy. Stays mapped until its owner lets go, whatever
// becomes of the communicator.
class CommunicatorMemory {
 public:
  virtual ~CommunicatorMemory() = default;
  virtual void* data() const = 0;
  virtual int64_t bytes() const = 0;
};

// The ranks 0..size-1 of one generation of one group, connected.
//
// Threads: one operation at a time, from any thread; the group sees to that. Abort and Held may be
// called from any thread at any time, also while an operation, Finalize or Connect is blocked.
// Arguments were checked by the group (see arguments.h) before they come here. Failures: a lost
// peer or a broken transport is Unavailable and names the peer ("lost contact with rank 2:
// connection reset"); the group turns that suspicion into the cause. Ranks that call what does
// not fit (another operation, element type, count, reduction or root) get an error, never OK with
// the data of something else: best FailedPrecondition with what each called. After any failed
// operation only Abort (and the destructor) may follow. When an operation has returned, for
// whatever reason, no thread and no device touches its buffers.
class Communicator {
 public:
  // Aborts when neither Finalize nor Abort was called. Bounded; never waits for a peer.
  virtual ~Communicator() = default;

  // Reductions: f16 and bf16 accumulate in f32; kAverage divides the sum by size() at the end; `in`
  // and `out` have the same count and dtype and are either the same memory or do not overlap. Every
  // rank ends with the same bits.
  virtual absl::Status AllReduce(ConstBuffer in, Buffer out, ReduceOp op,
                                 const OperationOptions& options);
  // `buffer` of `root` to all others.
  virtual absl::Status Broadcast(Buffer buffer, int root, const OperationOptions& options);
  // `out` is written on `root` alone.
  virtual absl::Status Reduce(ConstBuffer in, Buffer out, ReduceOp op, int root,
                              const OperationOptions& options);
  // out.count == size() * in.count; rank r's values at r * in.count. In place when `in` is that
  // slice of `out`.
  virtual absl::Status AllGather(ConstBuffer in, Buffer out, const OperationOptions& options);
  // As AllGather, on `root` alone (elsewhere `out` is ignored).
  virtual absl::Status Gather(ConstBuffer in, Buffer out, int root,
                              const OperationOptions& options);
  // in.count == size() * out.count on `root` (elsewhere `in` is ignored); rank r gets slice r.
  virtual absl::Status Scatter(ConstBuffer in, Buffer out, int root,
                               const OperationOptions& options);
  // in.count == size() * out.count; rank r gets slice r of the reduced `in`. In place when `out` is
  // that slice of `in`.
  virtual absl::Status ReduceScatter(ConstBuffer in, Buffer out, ReduceOp op,
                                     const OperationOptions& options);
  // in.count == out.count, a multiple of size(): slice p of `in` goes to rank p, slice p of `out`
  // comes from it.
  virtual absl::Status AllToAll(ConstBuffer in, Buffer out, const OperationOptions& options);
  // As AllToAll with in_counts[p] elements to rank p and out_counts[p] from it, packed in the order
  // of ranks.
  virtual absl::Status AllToAllV(ConstBuffer in, absl::Span<const int64_t> in_counts, Buffer out,
                                 absl::Span<const int64_t> out_counts,
                                 const OperationOptions& options);
  // Returns once every rank has entered it.
  virtual absl::Status Barrier(const OperationOptions& options);
  virtual absl::Status Send(ConstBuffer buffer, int peer, const OperationOptions& options);
  virtual absl::Status Receive(Buffer buffer, int peer, const OperationOptions& options);
  // All transfers progress together, so that two ranks may send to each other without a deadlock.
  virtual absl::Status Transfer(absl::Span<const PeerTransfer> transfers,
                                const OperationOptions& options);

  // From here to Deregister: for backends that have them; GroupPool does not use them yet. (A group
  // that is split from another one is connected anew, so that neither fails with the other.)
  //
  // A communicator over the ranks that give the same `color`, ordered by `key`, then by rank; null
  // where `color` is negative. Collective.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key,
                                                              const ConnectContext& context);
  virtual absl::StatusOr<std::unique_ptr<CommunicatorMemory>> Allocate(int64_t bytes);
  // Lets the backend move `buffer` without staging until Deregister or the end of the communicator.
  virtual absl::StatusOr<uint64_t> Register(Buffer buffer);
  virtual absl::Status Deregister(uint64_t registration);

  // The orderly end, once all ranks have agreed that no operation is to follow: flushes,
  // disconnects, gives everything back. Collective in effect only: it waits for a peer until
  // `deadline` at most, and for none that is gone, which is no error: nothing is owed to it any
  // more. OK means Held() is empty. After an error: Abort.
  virtual absl::Status Finalize(absl::Time deadline) = 0;

  // The other end: wakes whatever is blocked (it returns `cause`), cuts the transports so that
  // peers notice, gives everything back as soon as the woken calls have left. Local, never waits
  // for a peer and takes no lock that is held over a blocking call. Idempotent; the first cause
  // stays. After Finalize it does nothing.
  virtual void Abort(const absl::Status& cause) noexcept = 0;

  // What it holds at this moment. As Abort, it waits for nobody and takes no lock that is held over
  // a blocking call: it is asked of one that is stuck, to tell what was not given back.
  virtual Holdings Held() const = 0;
};

}  // namespace muster

#endif  // MUSTER_CORE_COLLECTIVE_COMMUNICATOR_H_

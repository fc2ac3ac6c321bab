// The one place that checks what a caller hands to a collective.
//
//   const ArgumentCheck check(rank, size, device);
//   // Before anything has moved:
//   if (absl::Status status = check.AllGather(in, out); !status.ok()) return status;
//
// The group calls it before it hands an operation to a communicator, so no backend checks again. It
// finds what one rank can see alone: counts, types, ranges, devices, overlaps. That the ranks agree
// with each other is not checked here.
#ifndef MUSTER_CORE_COLLECTIVE_ARGUMENTS_H_
#define MUSTER_CORE_COLLECTIVE_ARGUMENTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/device.h"
#include "muster/core/collective/reduce_op.h"

namespace muster {

// A value type: who we are. Each method is named after the operation of Communicator whose rules it
// checks. InvalidArgument names the argument, the value seen and what is accepted; it carries no
// prefix, since the caller knows which operation of which group it is:
//   "out is f32[7] on cpu and in is f32[2] on cpu: out needs as many elements as 4 ranks have in
//    in, 4 * 2"
class ArgumentCheck {
 public:
  constexpr ArgumentCheck(int rank, int size, Device device)
      : rank_(rank), size_(size), device_(device) {}

  absl::Status AllReduce(const ConstBuffer& in, const Buffer& out, ReduceOp op) const;
  absl::Status Broadcast(const Buffer& buffer, int root) const;
  absl::Status Reduce(const ConstBuffer& in, const Buffer& out, ReduceOp op, int root) const;
  absl::Status AllGather(const ConstBuffer& in, const Buffer& out) const;
  absl::Status Gather(const ConstBuffer& in, const Buffer& out, int root) const;
  absl::Status Scatter(const ConstBuffer& in, const Buffer& out, int root) const;
  absl::Status ReduceScatter(const ConstBuffer& in, const Buffer& out, ReduceOp op) const;
  absl::Status AllToAll(const ConstBuffer& in, const Buffer& out) const;
  absl::Status AllToAllV(const ConstBuffer& in, absl::Span<const int64_t> in_counts,
                         const Buffer& out, absl::Span<const int64_t> out_counts) const;
  absl::Status Send(const ConstBuffer& buffer, int peer) const;
  absl::Status Receive(const Buffer& buffer, int peer) const;
  // Besides each transfer: nothing that is received overlaps another buffer of the batch.
  absl::Status Transfer(absl::Span<const PeerTransfer> transfers) const;

 private:
  absl::Status CheckBuffer(absl::string_view name, const ConstBuffer& buffer) const;
  absl::Status CheckPair(const ConstBuffer& in, const Buffer& out) const;
  absl::Status CheckRoot(int root) const;
  absl::Status CheckPeer(int peer) const;

  int rank_;
  int size_;
  Device device_;
};

}  // namespace muster

#endif  // MUSTER_CORE_COLLECTIVE_ARGUMENTS_H_

// A live process group as its holders see it: collectives, and who is in it.
//
// Users get one from GroupPool::Acquire, behind a GroupLease. Thread-safe; it takes one operation
// at a time, in the order of calls. Any operation while another thread is in a blocking one is
// refused (FailedPrecondition): the ranks would interleave them differently. Asynchronous ones
// queue, and a blocking one waits for those before it.
//
// Errors of every operation. Found before anything moved, and harmless: InvalidArgument (a misuse),
// Unimplemented (the backend lacks it), FailedPrecondition for a call while another thread is in a
// blocking one, in a forked child or on an empty lease. FailedPrecondition, too, when the group is
// closed or closing: names the group, its state and who closed it. After every other error the
// group is aborted on every rank: DeadlineExceeded (operation_timeout), FailedPrecondition when the
// ranks did not do the same work, else the cause, the same on every rank: "all_reduce #41 of
// train/1: rank 3 (host b, pid 812) was lost: killed by signal 9". status() tells which it is.
#ifndef MUSTER_CORE_GROUP_GROUP_H_
#define MUSTER_CORE_GROUP_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/collective/work.h"
#include "muster/core/lifecycle/state.h"

namespace muster {

class GroupRuntime;  // what runs the group's life; internal

class Group {
 public:
  // `runtime` null: an empty lease's group, whose operations all say so.
  Group(std::shared_ptr<GroupRuntime> runtime, absl::Duration operation_timeout);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Of an empty lease's, -1, 0, "" and so on, and destroyed. Of the parent's in a forked child too,
  // but for the first three.
  int rank() const;
  int size() const;
  const std::string& name() const;  // "train"
  int64_t generation() const;       // 1, 2, ...
  std::string id() const;           // "train/1"
  std::string backend() const;      // resolved: never "auto"
  Capabilities capabilities() const;
  GroupState state() const;
  // OK while it is usable; else why not, as an operation would say it, and at once: Unavailable
  // while it is aborting and the cause is not known yet, for which an operation waits.
  absl::Status status() const;

  // Blocking; refused on the control thread (in an Observer), which each of them may have to wait
  // for. See communicator.h for shapes. The two-buffer forms accept in == out where communicator.h
  // says "in place".
  absl::Status AllReduce(Buffer buffer, ReduceOp op);
  absl::Status AllReduce(ConstBuffer in, Buffer out, ReduceOp op);
  absl::Status Broadcast(Buffer buffer, int root);
  absl::Status Reduce(ConstBuffer in, Buffer out, ReduceOp op, int root);
  absl::Status AllGather(ConstBuffer in, Buffer out);
  absl::Status Gather(ConstBuffer in, Buffer out, int root);
  absl::Status Scatter(ConstBuffer in, Buffer out, int root);
  absl::Status ReduceScatter(ConstBuffer in, Buffer out, ReduceOp op);
  absl::Status AllToAll(ConstBuffer in, Buffer out);
  absl::Status AllToAllV(ConstBuffer in, absl::Span<const int64_t> in_counts, Buffer out,
                         absl::Span<const int64_t> out_counts);
  absl::Status Barrier();
  absl::Status Send(ConstBuffer buffer, int peer);
  absl::Status Receive(Buffer buffer, int peer);
  absl::Status Transfer(absl::Span<const PeerTransfer> transfers);

  // Returns at once, on every thread; the operation runs on the group's own thread (started at the
  // first one) after those before it. A misuse is the result of the Work. (Not to be waited for on
  // the control thread, nor destroyed there before it is done.)
  Work AllReduceAsync(Buffer buffer, ReduceOp op);
  Work BroadcastAsync(Buffer buffer, int root);
  Work AllGatherAsync(ConstBuffer in, Buffer out);
  Work ReduceScatterAsync(ConstBuffer in, Buffer out, ReduceOp op);
  Work BarrierAsync();

 private:
  bool owned() const;  // neither empty nor the parent's
  absl::Status CheckOwner(absl::string_view operation) const;
  template <class Check, class Body>
  absl::Status Run(absl::string_view name, bool collective, const Check& check, Body body);
  template <class Check, class Body>
  Work RunAsync(absl::string_view name, const Check& check, Body body);

  std::shared_ptr<GroupRuntime> runtime_;
  absl::Duration operation_timeout_;
  uint64_t made_in_;  // ForkGeneration
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_GROUP_H_

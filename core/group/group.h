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
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/collective/work.h"
#include "muster/core/lifecycle/state.h"
#include "muster/core/platform/source_location.h"

namespace muster {

class GroupLease;
class GroupRuntime;  // what runs the group's life; internal

// Who makes the groups that one is split into: its lease's pool. Internal.
class GroupSplitter {
 public:
  virtual absl::StatusOr<GroupLease> Split(int color, int key, SourceLocation where) = 0;

 protected:
  ~GroupSplitter() = default;
};

class Group {
 public:
  // `runtime` null: an empty lease's group, whose operations all say so.
  Group(std::shared_ptr<GroupRuntime> runtime, absl::Duration operation_timeout,
        GroupSplitter* splitter = nullptr);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Of an empty lease's, -1, 0, "" and so on, and destroyed. Of the parent's in a forked child too,
  // but for the first three.
  int rank() const;  // in this group: pool.rank() is the one in the job, which messages speak of
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

  // Divides the group: the ranks that give one `color` are a new group, a child, in the order of
  // `key`, and of their ranks here where keys are equal. Every rank of this group calls it, as
  // often as the others; one with a negative color gets an empty lease. Blocks until the child is
  // ready.
  //
  // A child is a group like another, of this one's backend and this lease's timeouts, under a name
  // of its own ("train:split1.color0"). It is connected anew and so lives by itself: it fails when
  // one of its ranks does and not when its parent does, and the other way round. It ends with its
  // last lease on any rank, and keeps its parent from being closed here before (see
  // GroupLease::CloseWithChildren). Two Splits give two groups, whatever the colors.
  //
  // At most setup_timeout for the agreement and the child's set-up together. Errors, after which
  // this group is as it was: DeadlineExceeded naming the ranks that did not call it;
  // FailedPrecondition while another thread of this rank is in one, on the control thread, and
  // when ranks wait for each other (see GroupPool::Acquire); those of Acquire for the child, on its
  // ranks alone. And why this group is not usable any more, when it is not.
  static constexpr int kNoColor = -1;
  absl::StatusOr<GroupLease> Split(int color, int key,
                                   SourceLocation where = SourceLocation::Current());

 private:
  bool owned() const;  // neither empty nor the parent's
  absl::Status CheckOwner(absl::string_view operation) const;
  template <class Check, class Body>
  absl::Status Run(absl::string_view name, bool collective, const Check& check, Body body);
  template <class Check, class Body>
  Work RunAsync(absl::string_view name, const Check& check, Body body);

  std::shared_ptr<GroupRuntime> runtime_;
  absl::Duration operation_timeout_;
  GroupSplitter* splitter_;
  uint64_t made_in_;  // ForkGeneration
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_GROUP_H_

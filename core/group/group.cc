#include "muster/core/group/group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "muster/core/collective/arguments.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/group/group_runtime.h"
#include "muster/core/platform/fork_guard.h"

namespace muster {
namespace {

using Kind = OperationGate::Kind;

const std::string& NoName() {
  static const std::string* const name = new std::string;
  return *name;
}

absl::Status EmptyLease(absl::string_view operation) {
  return absl::FailedPreconditionError(absl::StrCat(
      operation,
      ": this lease is empty (it was released, or moved from); acquire the group again"));
}

}  // namespace

Group::Group(std::shared_ptr<GroupRuntime> runtime, absl::Duration operation_timeout,
             GroupSplitter* splitter)
    : runtime_(std::move(runtime)),
      operation_timeout_(operation_timeout),
      splitter_(splitter),
      made_in_(ForkGeneration()) {}

Group::~Group() = default;

int Group::rank() const { return runtime_ == nullptr ? -1 : runtime_->rank(); }
int Group::size() const { return runtime_ == nullptr ? 0 : runtime_->size(); }
const std::string& Group::name() const {
  return runtime_ == nullptr ? NoName() : runtime_->spec().name;
}
int64_t Group::generation() const { return owned() ? runtime_->generation() : 0; }
std::string Group::id() const { return owned() ? runtime_->id() : ""; }
std::string Group::backend() const { return owned() ? runtime_->backend() : ""; }
Capabilities Group::capabilities() const {
  return owned() ? runtime_->capabilities() : Capabilities();
}
GroupState Group::state() const { return owned() ? runtime_->state() : GroupState::kDestroyed; }
absl::Status Group::status() const {
  absl::Status owner = CheckOwner("status");
  return owner.ok() ? runtime_->status() : owner;
}

// Before anything is locked: in a forked child whoever held a lock, or would answer, is not there.
bool Group::owned() const { return runtime_ != nullptr && made_in_ == ForkGeneration(); }

absl::Status Group::CheckOwner(absl::string_view operation) const {
  if (runtime_ == nullptr) return EmptyLease(operation);
  if (owned()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(operation, " of '", name(),
                   "' in a forked child: the group belongs to the process that made it; make a "
                   "pool after fork, or exec"));
}

// Every operation passes here: `check` looks at the arguments before anything is counted or moved.
template <class Check, class Body>
absl::Status Group::Run(absl::string_view name, bool collective, const Check& check, Body body) {
  if (absl::Status owner = CheckOwner(name); !owner.ok()) return owner;
  const ArgumentCheck arguments(rank(), size(), runtime_->spec().device);
  if (absl::Status status = check(arguments); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(name, " of ", id(), ": ", status.message()));
  }
  // A copy: one that does not return in time may outlive its lease.
  const std::shared_ptr<GroupRuntime> runtime = runtime_;
  return runtime->Run({name, collective ? Kind::kCollective : Kind::kPointToPoint, std::move(body)},
                      operation_timeout_);
}

template <class Check, class Body>
Work Group::RunAsync(absl::string_view name, const Check& check, Body body) {
  absl::Status status = CheckOwner(name);
  if (status.ok()) {
    const ArgumentCheck arguments(rank(), size(), runtime_->spec().device);
    status = check(arguments);
    if (status.ok()) {
      return runtime_->RunAsync({name, Kind::kCollective, std::move(body)}, operation_timeout_);
    }
    status = absl::Status(status.code(), absl::StrCat(name, " of ", id(), ": ", status.message()));
  }
  return Work(std::move(status));  // without a lock, for a forked child
}

namespace {
absl::Status NothingToCheck(const ArgumentCheck&) { return absl::OkStatus(); }
}  // namespace

absl::Status Group::AllReduce(Buffer buffer, ReduceOp op) { return AllReduce(buffer, buffer, op); }

absl::Status Group::AllReduce(ConstBuffer in, Buffer out, ReduceOp op) {
  return Run(
      "all_reduce", true, [&](const ArgumentCheck& check) { return check.AllReduce(in, out, op); },
      [=](Communicator& c, const OperationOptions& o) { return c.AllReduce(in, out, op, o); });
}

absl::Status Group::Broadcast(Buffer buffer, int root) {
  return Run(
      "broadcast", true, [&](const ArgumentCheck& check) { return check.Broadcast(buffer, root); },
      [=](Communicator& c, const OperationOptions& o) { return c.Broadcast(buffer, root, o); });
}

absl::Status Group::Reduce(ConstBuffer in, Buffer out, ReduceOp op, int root) {
  return Run(
      "reduce", true, [&](const ArgumentCheck& check) { return check.Reduce(in, out, op, root); },
      [=](Communicator& c, const OperationOptions& o) { return c.Reduce(in, out, op, root, o); });
}

absl::Status Group::AllGather(ConstBuffer in, Buffer out) {
  return Run(
      "all_gather", true, [&](const ArgumentCheck& check) { return check.AllGather(in, out); },
      [=](Communicator& c, const OperationOptions& o) { return c.AllGather(in, out, o); });
}

absl::Status Group::Gather(ConstBuffer in, Buffer out, int root) {
  return Run(
      "gather", true, [&](const ArgumentCheck& check) { return check.Gather(in, out, root); },
      [=](Communicator& c, const OperationOptions& o) { return c.Gather(in, out, root, o); });
}

absl::Status Group::Scatter(ConstBuffer in, Buffer out, int root) {
  return Run(
      "scatter", true, [&](const ArgumentCheck& check) { return check.Scatter(in, out, root); },
      [=](Communicator& c, const OperationOptions& o) { return c.Scatter(in, out, root, o); });
}

absl::Status Group::ReduceScatter(ConstBuffer in, Buffer out, ReduceOp op) {
  return Run(
      "reduce_scatter", true,
      [&](const ArgumentCheck& check) { return check.ReduceScatter(in, out, op); },
      [=](Communicator& c, const OperationOptions& o) { return c.ReduceScatter(in, out, op, o); });
}

absl::Status Group::AllToAll(ConstBuffer in, Buffer out) {
  return Run(
      "all_to_all", true, [&](const ArgumentCheck& check) { return check.AllToAll(in, out); },
      [=](Communicator& c, const OperationOptions& o) { return c.AllToAll(in, out, o); });
}

absl::Status Group::AllToAllV(ConstBuffer in, absl::Span<const int64_t> in_counts, Buffer out,
                              absl::Span<const int64_t> out_counts) {
  return Run(
      "all_to_all_v", true,
      [&](const ArgumentCheck& check) { return check.AllToAllV(in, in_counts, out, out_counts); },
      [=](Communicator& c, const OperationOptions& o) {
        return c.AllToAllV(in, in_counts, out, out_counts, o);
      });
}

absl::Status Group::Barrier() {
  return Run("barrier", true, NothingToCheck,
             [](Communicator& c, const OperationOptions& o) { return c.Barrier(o); });
}

absl::Status Group::Send(ConstBuffer buffer, int peer) {
  return Run(
      "send", false, [&](const ArgumentCheck& check) { return check.Send(buffer, peer); },
      [=](Communicator& c, const OperationOptions& o) { return c.Send(buffer, peer, o); });
}

absl::Status Group::Receive(Buffer buffer, int peer) {
  return Run(
      "receive", false, [&](const ArgumentCheck& check) { return check.Receive(buffer, peer); },
      [=](Communicator& c, const OperationOptions& o) { return c.Receive(buffer, peer, o); });
}

absl::Status Group::Transfer(absl::Span<const PeerTransfer> transfers) {
  return Run(
      "transfer", false, [&](const ArgumentCheck& check) { return check.Transfer(transfers); },
      [=](Communicator& c, const OperationOptions& o) { return c.Transfer(transfers, o); });
}

Work Group::AllReduceAsync(Buffer buffer, ReduceOp op) {
  return RunAsync(
      "all_reduce", [&](const ArgumentCheck& check) { return check.AllReduce(buffer, buffer, op); },
      [=](Communicator& c, const OperationOptions& o) {
        return c.AllReduce(buffer, buffer, op, o);
      });
}

Work Group::BroadcastAsync(Buffer buffer, int root) {
  return RunAsync(
      "broadcast", [&](const ArgumentCheck& check) { return check.Broadcast(buffer, root); },
      [=](Communicator& c, const OperationOptions& o) { return c.Broadcast(buffer, root, o); });
}

Work Group::AllGatherAsync(ConstBuffer in, Buffer out) {
  return RunAsync(
      "all_gather", [&](const ArgumentCheck& check) { return check.AllGather(in, out); },
      [=](Communicator& c, const OperationOptions& o) { return c.AllGather(in, out, o); });
}

Work Group::ReduceScatterAsync(ConstBuffer in, Buffer out, ReduceOp op) {
  return RunAsync(
      "reduce_scatter",
      [&](const ArgumentCheck& check) { return check.ReduceScatter(in, out, op); },
      [=](Communicator& c, const OperationOptions& o) { return c.ReduceScatter(in, out, op, o); });
}

absl::StatusOr<GroupLease> Group::Split(int color, int key, SourceLocation where) {
  if (absl::Status owner = CheckOwner("split"); !owner.ok()) return owner;
  return splitter_->Split(color, key, where);
}

Work Group::BarrierAsync() {
  return RunAsync("barrier", NothingToCheck,
                  [](Communicator& c, const OperationOptions& o) { return c.Barrier(o); });
}

}  // namespace muster

// GroupRuntime's operations: on the caller's thread, or on the group's own.
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/group_runtime.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {

absl::Status GroupRuntime::Labelled(absl::string_view label, const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat(label, " of ", id(), ": ", status.message()));
}

absl::Status GroupRuntime::WaitCause() const {
  absl::MutexLock lock(&mutex_);
  const auto resolved = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !cause_.ok(); };
  mutex_.Await(absl::Condition(&resolved));
  return cause_;
}

absl::Status GroupRuntime::Run(Operation operation, absl::Duration timeout) {
  absl::StatusOr<OperationGate::Ticket> ticket =
      gate_.Enter(operation.name, operation.kind, OperationGate::Mode::kBlocking);
  if (!ticket.ok()) {
    return Labelled(operation.name,
                    state() == GroupState::kAborting ? WaitCause() : ticket.status());
  }
  if (ticket->mode == OperationGate::Mode::kBlocking) return RunOne(operation, *ticket, timeout);
  auto work = std::make_shared<WorkState>();
  absl::Status queued = Enqueue(std::move(operation), *std::move(ticket), timeout, work);
  return queued.ok() ? work->Wait(absl::InfiniteFuture()) : queued;
}

Work GroupRuntime::RunAsync(Operation operation, absl::Duration timeout) {
  auto work = std::make_shared<WorkState>();
  absl::StatusOr<OperationGate::Ticket> ticket =
      gate_.Enter(operation.name, operation.kind, OperationGate::Mode::kQueued);
  absl::Status status = ticket.ok()
                            ? Enqueue(std::move(operation), *std::move(ticket), timeout, work)
                            : Labelled(operation.name, ticket.status());
  if (!status.ok()) work->Finish(std::move(status));
  return Work(std::move(work));
}

absl::Status GroupRuntime::RunOne(Operation& operation, const OperationGate::Ticket& ticket,
                                  absl::Duration timeout) {
  std::shared_ptr<Communicator> communicator;
  {
    absl::MutexLock lock(&mutex_);
    communicator = communicator_;
  }
  absl::Status status = absl::UnavailableError("the group was aborted");
  if (communicator != nullptr) {
    OperationOptions options;
    options.deadline = MonotonicNow() + timeout;
    status = HitFault(FaultPoint::kGroupOperation, options_.rank);
    if (status.ok()) status = operation.run(*communicator, options);
  }
  communicator.reset();
  const bool failed = !status.ok() && !absl::IsUnimplemented(status);
  if (failed) {
    absl::Status why = status;
    if (absl::IsDeadlineExceeded(status)) {
      why = absl::DeadlineExceededError(absl::StrCat(
          ticket.label, " of ", id(), " did not finish within ", absl::FormatDuration(timeout),
          " on rank ", options_.rank, ": ", status.message()));
    } else if (CertaintyOf(status) == Certainty::kCause) {
      // This rank's own, and soon everybody's.
      why =
          absl::Status(status.code(), absl::StrCat("rank ", options_.rank, ": ", status.message()));
    }
    // Before Leave: a close that waits for this operation must find the failure first.
    Step([why](GroupProtocol& protocol, absl::Time now) {
      return protocol.Fail(now, why, CertaintyOf(why));
    });
  }
  gate_.Leave(ticket);
  if (failed || state() == GroupState::kAborting) {
    options_.executor->Post([self = shared_from_this()] { self->ReleaseWhenUnused(); });
  }
  if (failed) status = WaitCause();
  return status.ok() ? status : Labelled(ticket.label, status);
}

absl::Status GroupRuntime::Enqueue(Operation operation, OperationGate::Ticket ticket,
                                   absl::Duration timeout, std::shared_ptr<WorkState> work) {
  {
    absl::MutexLock lock(&queue_mutex_);
    if (!queue_ends_ && !queue_started_) {
      // The queue ends before the group is terminal, and the group holds itself until then.
      absl::Status started = queue_thread_.Start([this] { RunQueue(); });
      if (!started.ok()) {
        gate_.Leave(ticket);
        return Labelled(ticket.label, started);
      }
      queue_started_ = true;
    }
    if (!queue_ends_) {
      queue_.push_back({std::move(operation), std::move(ticket), timeout, std::move(work)});
      return absl::OkStatus();
    }
  }
  // An abort found the group idle and let its queue go; the gate stays open until the cause is
  // known, which this operation waits for as one that the abort had broken would.
  gate_.Leave(ticket);
  return Labelled(ticket.label, WaitCause());
}

void GroupRuntime::RunQueue() {
  const auto awake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_) {
    return !queue_.empty() || queue_ends_;
  };
  while (true) {
    Queued next;
    {
      absl::MutexLock lock(&queue_mutex_);
      queue_mutex_.Await(absl::Condition(&awake));
      if (queue_.empty()) return;
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    next.work->Finish(RunOne(next.operation, next.ticket, next.timeout));
  }
}

}  // namespace muster

// GroupRuntime's operations: on the caller's thread, or on the group's own.
#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/group_runtime.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/rename_ranks.h"

namespace muster {
namespace {

// For the answers about a late operation, beyond its timeout.
absl::Duration CensusWindow(const GroupSpec& spec) {
  return std::min(spec.cause_window, absl::Seconds(1));
}

// 41 of "all_reduce #41"; 0 of "send".
int64_t NumberIn(absl::string_view label) {
  const size_t at = label.rfind('#');
  int64_t number = 0;
  if (at == absl::string_view::npos || !absl::SimpleAtoi(label.substr(at + 1), &number)) return 0;
  return number;
}

absl::Status DidNotFinish(absl::string_view label, const GroupRuntime& group,
                          absl::Duration timeout, absl::string_view why) {
  return absl::DeadlineExceededError(
      absl::StrCat(label, " of ", group.id(), " did not finish within ",
                   absl::FormatDuration(timeout), " on rank ", group.rank_in_job(), ": ", why));
}

}  // namespace

// A backend keeps the exceptions of its library to itself. One that does not would leave the gate
// shut behind an operation that nobody is in, or end the process on the group's own thread; and its
// peers are in that operation too. So it is a failure like another.
absl::Status GroupRuntime::CatchAll(absl::FunctionRef<absl::Status()> call) const {
  std::string what;
  try {
    return call();
  } catch (const std::exception& exception) {
    what = exception.what();
  } catch (...) {
    what = "it is no std::exception";
  }
  return absl::InternalError(
      absl::StrCat("the backend \"", backend(), "\" let an exception out: ", what));
}

absl::Status GroupRuntime::SaidOfTheJob(const absl::Status& status) const {
  if (status.ok() || options_.spec.members.empty()) return status;
  return absl::Status(status.code(), RenameRanks(status.message(), options_.spec.members));
}

absl::Status GroupRuntime::Labelled(absl::string_view label, const absl::Status& status) const {
  const std::string where = absl::StrCat(label, " of ", id());
  // A cause that is this operation's own has it already.
  if (absl::StartsWith(status.message(), where)) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

absl::Status GroupRuntime::OfThisRank(const absl::Status& why) const {
  if (CertaintyOf(why) == Certainty::kCause) {
    return absl::Status(why.code(), absl::StrCat("rank ", rank_in_job(), ": ", why.message()));
  }
  return absl::Status(why.code(),
                      absl::StrCat(why.message(), " (seen by rank ", rank_in_job(), ")"));
}

absl::Status GroupRuntime::WaitCause() const {
  absl::MutexLock lock(&mutex_);
  const auto resolved = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !cause_.ok(); };
  mutex_.Await(absl::Condition(&resolved));
  return cause_;
}

absl::Status GroupRuntime::WhyNot(absl::string_view operation) const {
  return Labelled(operation, state() == GroupState::kAborting ? WaitCause() : gate_.status());
}

void GroupRuntime::AgreeOnSplit(std::string value, std::string waits_in, absl::Time deadline,
                                Store::Callback<GatherResult> done) {
  options_.executor->Post([self = shared_from_this(), value = std::move(value),
                           waits_in = std::move(waits_in), deadline,
                           done = std::move(done)]() mutable {
    if (self->protocol_.state() != GroupState::kReady) {
      return done(absl::FailedPreconditionError("the group is not ready"));
    }
    self->splitting_ = true;
    self->GatherMembers(self->split_key(), value, std::move(waits_in), deadline,
                        [self, done = std::move(done)](absl::StatusOr<GatherResult> r) mutable {
                          self->splitting_ = false;
                          done(std::move(r));
                        });
  });
}

// After whatever is on its way to the store: the peers are to learn why first.
void GroupRuntime::LeaveSplit() {
  if (!splitting_) return;
  options_.executor->Post([self = shared_from_this()] {
    // A pool that ends waits for its groups and then lets go of the store.
    if (!self->splitting_ || IsTerminal(self->protocol_.state())) return;
    self->options_.store->Withdraw(self->split_key(), self->options_.rank,
                                   self->gate_.status().message());
  });
}

absl::Status GroupRuntime::Run(Operation operation, absl::Duration timeout) {
  if (options_.executor->RunsHere()) {  // where the cause of its failure would come from
    return absl::FailedPreconditionError(
        absl::StrCat(operation.name, " of ", id(), " on rank ", rank_in_job(),
                     "'s control thread (in an observer), which it would wait for: call it on "
                     "another thread"));
  }
  absl::StatusOr<OperationGate::Ticket> ticket;
  auto work = std::make_shared<WorkState>();
  absl::Status queued;
  {
    // Over both, so that operations are queued in the order of their numbers.
    absl::MutexLock lock(&queue_mutex_);
    ticket = gate_.Enter(operation.name, operation.kind, OperationGate::Mode::kBlocking);
    if (ticket.ok() && ticket->mode == OperationGate::Mode::kQueued) {
      queued = Enqueue(operation, *ticket, timeout, work);
    }
  }
  if (!ticket.ok()) {
    return Labelled(operation.name,
                    state() == GroupState::kAborting ? WaitCause() : ticket.status());
  }
  if (!queued.ok()) {
    GiveUp(*ticket, queued);
    return Labelled(ticket->label, WaitCause());
  }
  if (ticket->mode == OperationGate::Mode::kBlocking) return RunOne(operation, *ticket, timeout);
  return work->Wait(absl::InfiniteFuture());
}

Work GroupRuntime::RunAsync(Operation operation, absl::Duration timeout) {
  auto work = std::make_shared<WorkState>();
  absl::StatusOr<OperationGate::Ticket> ticket;
  absl::Status queued;
  {
    absl::MutexLock lock(&queue_mutex_);
    ticket = gate_.Enter(operation.name, operation.kind, OperationGate::Mode::kQueued);
    if (ticket.ok()) queued = Enqueue(operation, *ticket, timeout, work);
  }
  if (!ticket.ok() && state() == GroupState::kAborting) {
    FinishWithCause(std::string(operation.name), work);
  } else if (!ticket.ok()) {
    work->Finish(Labelled(operation.name, ticket.status()));
  } else if (!queued.ok()) {
    GiveUp(*ticket, queued);
    FinishWithCause(ticket->label, work);
  }
  return Work(std::move(work));
}

absl::Status GroupRuntime::RunOne(Operation& operation, const OperationGate::Ticket& ticket,
                                  absl::Duration timeout) {
  std::shared_ptr<Communicator> communicator;
  {
    absl::MutexLock lock(&mutex_);
    // Who releases it after an abort looks at the gate, which one that enters now would pass
    // unseen: it would be the last to let go, and the communicator's end would hold its thread.
    if (!aborted_) communicator = communicator_;
  }
  absl::Status status = absl::UnavailableError("the group was aborted");
  if (communicator != nullptr) {
    OperationOptions options;
    options.deadline = MonotonicNow() + timeout;
    status = HitFault(FaultPoint::kGroupOperation, rank_in_job());
    if (status.ok()) {
      watch_->Enter(ticket.label, timeout);
      status = SaidOfTheJob(CatchAll([&] { return operation.run(*communicator, options); }));
      watch_->Leave();
    }
  }
  communicator.reset();
  const bool failed = !status.ok() && !absl::IsUnimplemented(status);
  if (failed) {
    absl::Status why = status;
    if (absl::IsDeadlineExceeded(status)) {
      why = DidNotFinish(ticket.label, *this, timeout,
                         absl::StrCat(status.message(), WhoIsMissing(ticket.label)));
    } else {
      // InvalidArgument is said of what was found before anything moved, and leaves the group
      // alone; this was not, and does not.
      why = OfThisRank(absl::IsInvalidArgument(status)
                           ? absl::FailedPreconditionError(status.message())
                           : status);
    }
    // Before Leave: a close that waits for this operation must find the failure first.
    Step([why](GroupProtocol& protocol, absl::Time now) {
      return protocol.Fail(now, why, CertaintyOf(why));
    });
  }
  Left(ticket, failed);
  if (failed) status = WaitCause();
  return status.ok() ? status : Labelled(ticket.label, status);
}

void GroupRuntime::OnLate(absl::string_view label, absl::Duration timeout) {
  AskWhoIsMissing(label, [self = shared_from_this(), label = std::string(label),
                          timeout](const std::string& missing) {
    // In any other state it is one that an abort is about to wake.
    const GroupState state = self->protocol_.state();
    if (state != GroupState::kReady && state != GroupState::kDraining) return;
    self->Execute(self->protocol_.Fail(
        self->options_.executor->Now(),
        DidNotFinish(label, *self, timeout,
                     absl::StrCat("the backend \"", self->backend(), "\" has not returned, ",
                                  absl::FormatDuration(self->options_.spec.cause_window),
                                  " after its deadline", missing)),
        Certainty::kCause));
  });
}

void GroupRuntime::OnAsked(absl::string_view group, Revision revision) {
  if (protocol_.generation() == 0 || IsTerminal(protocol_.state()) ||
      group != absl::StrCat(scope_, "/", protocol_.generation())) {
    return;
  }
  Census().OnAsked(revision);
}

OperationCensus& GroupRuntime::Census() {
  if (census_ == nullptr) {
    OperationCensus::Options options;
    options.store = options_.store;
    options.group = absl::StrCat(scope_, "/", protocol_.generation());
    options.among = {options_.rank, options_.size, options_.spec.members, ""};
    options.window = CensusWindow(options_.spec);
    options.now = [executor = options_.executor] { return executor->Now(); };
    options.place = [weak = weak_from_this()] {
      const auto self = weak.lock();
      return self == nullptr ? OperationPlace()
                             : OperationPlace{self->gate_.issued(), self->gate_.Inside()};
    };
    census_ = std::make_shared<OperationCensus>(std::move(options));
  }
  return *census_;
}

void GroupRuntime::AskWhoIsMissing(absl::string_view label, std::function<void(std::string)> then) {
  const int64_t number = NumberIn(label);
  const GroupState state = protocol_.state();
  if (number == 0 || (state != GroupState::kReady && state != GroupState::kDraining)) {
    return then("");
  }
  const auto once = std::make_shared<std::function<void(std::string)>>(std::move(then));
  const auto answer = [once](const std::string& missing) {
    if (const auto first = std::exchange(*once, nullptr); first != nullptr) first(missing);
  };
  Census().Ask([answer, number, members = options_.spec.members](
                   absl::StatusOr<std::vector<OperationPlace>> places) {
    answer(absl::StrCat("; ", places.ok() ? WhoHasNotEntered(number, *places, members)
                                          : absl::StrCat("who has not entered it is not known: ",
                                                         places.status().message())));
  });
  // The store has the window for its answer; this is for one that does not keep it.
  options_.executor->PostAt(options_.executor->Now() + CensusWindow(options_.spec) * 1.5,
                            [answer] { answer(""); });
}

std::string GroupRuntime::WhoIsMissing(const std::string& label) {
  struct Asked {
    absl::Notification answered;
    std::string missing;
  };
  auto asked = std::make_shared<Asked>();
  options_.executor->Post([self = shared_from_this(), label, asked] {
    self->AskWhoIsMissing(label, [asked](std::string missing) {
      asked->missing = std::move(missing);
      asked->answered.Notify();
    });
  });
  // Without an end the executor's, which drops what comes later.
  return asked->answered.WaitForNotificationWithTimeout(CensusWindow(options_.spec) * 2)
             ? asked->missing
             : "";
}

absl::Status GroupRuntime::Enqueue(Operation& operation, const OperationGate::Ticket& ticket,
                                   absl::Duration timeout, const std::shared_ptr<WorkState>& work) {
  // An abort found the group idle and let its queue go; the gate stays open until the cause is
  // known.
  if (queue_ends_) return absl::UnavailableError("the group was aborted");
  if (queue_thread_ == nullptr) {
    auto thread = std::make_unique<HelperThread>();
    absl::Status started = HitFault(FaultPoint::kGroupQueue, rank_in_job());
    if (started.ok()) {
      started = thread->Start([self = shared_from_this()] { self->RunQueue(); });
    }
    if (!started.ok()) return started;
    queue_thread_ = std::move(thread);
  }
  queue_.push_back({std::move(operation), ticket, timeout, work});
  return absl::OkStatus();
}

// The ranks number their collectives alike, so one that cannot be run here breaks the group.
void GroupRuntime::GiveUp(const OperationGate::Ticket& ticket, absl::Status why) {
  why = OfThisRank(why);
  Step([why](GroupProtocol& protocol, absl::Time now) {
    return protocol.Fail(now, why, CertaintyOf(why));
  });
  Left(ticket, /*failed=*/true);
}

void GroupRuntime::FinishWithCause(std::string label, std::shared_ptr<WorkState> work) {
  absl::Status cause;
  {
    absl::MutexLock lock(&mutex_);
    if (cause_.ok()) {
      wait_for_cause_.push_back({std::move(label), std::move(work)});
      return;
    }
    cause = cause_;
  }
  work->Finish(Labelled(label, cause));
}

void GroupRuntime::Left(const OperationGate::Ticket& ticket, bool failed) {
  gate_.Leave(ticket);
  if (failed || state() == GroupState::kAborting) {
    options_.executor->Post([self = shared_from_this()] { self->ReleaseWhenUnused(); });
  }
  CrossOutResidue();
  if (asked_) OnHeldNoMore();
}

void GroupRuntime::FinishQueued(const absl::Status& cause) {
  std::deque<Queued> waiting;
  {
    absl::MutexLock lock(&queue_mutex_);
    waiting.swap(queue_);
  }
  for (Queued& queued : waiting) {
    gate_.Leave(queued.ticket);
    queued.work->Finish(Labelled(queued.ticket.label, cause));
  }
  if (waiting.empty()) return;
  ReleaseWhenUnused();
  // The one before them may have come back since the group was given up, and have seen them wait.
  CrossOutResidue();
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

#include "muster/core/group/group_runtime.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "muster/core/fault/fault.h"
#include "muster/core/observe/error_file.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {
namespace {

GroupProtocol::Options ProtocolOptions(const GroupRuntime::Options& options) {
  GroupProtocol::Options protocol;
  protocol.name = options.spec.name;
  protocol.rank = options.rank;
  protocol.size = options.size;
  protocol.members = options.spec.members;
  protocol.introduction = options.introduction;
  protocol.setup_timeout = options.spec.setup_timeout;
  protocol.setup_by = options.setup_by;
  protocol.close_timeout = options.spec.close_timeout;
  protocol.cause_window = options.spec.cause_window;
  return protocol;
}

void TellTorchrun(const std::string& error_file, const std::string& group,
                  const absl::Status& cause) {
  if (error_file.empty()) return;
  const absl::Status written =
      WriteErrorFile(error_file, absl::StrCat("group ", group, ": ", cause.message()), absl::Now());
  if (!written.ok()) {
    LOG(ERROR) << "the cause that ended group " << group
               << " is not in TORCHELASTIC_ERROR_FILE: " << written.message();
  }
}

}  // namespace

GroupRuntime::GroupRuntime(Options options)
    : options_(std::move(options)),
      scope_(GroupScope(options_.spec.name, options_.spec.members)),
      gate_(absl::FailedPreconditionError("the group is not ready yet")),
      protocol_(ProtocolOptions(options_)) {}

// --- the life

void GroupRuntime::Start() {
  options_.executor->Post([self = shared_from_this()] {
    self->self_ = self;
    self->options_.news->Subscribe(self->scope_, self.get());
    self->Execute(self->protocol_.Start(self->options_.executor->Now()));
    self->options_.news->TellSessions(self.get());
  });
}

absl::Status GroupRuntime::WaitReady() {
  absl::MutexLock lock(&mutex_);
  const auto settled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return was_ready_ || IsTerminal(state_);
  };
  mutex_.Await(absl::Condition(&settled));
  if (was_ready_) return absl::OkStatus();
  return cause_.ok() ? absl::FailedPreconditionError(absl::StrCat(
                           "'", options_.spec.name, "' was closed before it was set up"))
                     : cause_;
}

absl::Status GroupRuntime::WaitTerminal() {
  absl::MutexLock lock(&mutex_);
  const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return IsTerminal(state_); };
  mutex_.Await(absl::Condition(&ended));
  return state_ == GroupState::kDestroyed ? absl::OkStatus() : cause_;
}

bool GroupRuntime::TerminalBy(absl::Time deadline) const {
  absl::MutexLock lock(&mutex_);
  const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return IsTerminal(state_); };
  return mutex_.AwaitWithTimeout(absl::Condition(&ended), deadline - MonotonicNow());
}

void GroupRuntime::BeginClose(absl::Duration timeout) {
  if (absl::Status fault = HitFault(FaultPoint::kPoolClosing, rank_in_job()); !fault.ok()) {
    return BeginAbort(fault);
  }
  // Sealed on the caller's thread: no operation slips in between the number and the news of the
  // close.
  const int64_t issued = gate_.Seal(absl::StrCat("rank ", rank_in_job(), " closed"));
  Step([timeout, issued](GroupProtocol& protocol, absl::Time now) {
    return protocol.Close(now, timeout, issued);
  });
}

void GroupRuntime::BeginAbort(const absl::Status& cause, absl::Duration bound) {
  Step([cause, bound](GroupProtocol& protocol, absl::Time now) {
    return protocol.Fail(now, cause, Certainty::kCause, bound);
  });
}

void GroupRuntime::BeginAbortOfSetUp(const absl::Status& cause) {
  Step([cause](GroupProtocol& protocol, absl::Time now) {
    const GroupState state = protocol.state();
    return state == GroupState::kRendezvous || state == GroupState::kConnecting
               ? protocol.Fail(now, cause, Certainty::kCause)
               : Actions();
  });
}

void GroupRuntime::Hurry(absl::Duration bound) {
  Step([bound](GroupProtocol& protocol, absl::Time now) { return protocol.Hurry(now, bound); });
}

void GroupRuntime::Propose(const std::string& wanted,
                           std::function<void(const absl::Status&)> refused) {
  Step([this, wanted, refused = std::move(refused)](GroupProtocol& protocol, absl::Time now) {
    refused_.push_back(refused);
    return protocol.Propose(now, wanted);
  });
}

void GroupRuntime::Step(absl::AnyInvocable<Actions(GroupProtocol&, absl::Time)> step) {
  options_.executor->Post([self = shared_from_this(), step = std::move(step)]() mutable {
    self->Execute(step(self->protocol_, self->options_.executor->Now()));
  });
}

void GroupRuntime::OnRecord(Revision revision, const GroupRecord& record) {
  Execute(protocol_.OnRecord(options_.executor->Now(), revision, record));
}

void GroupRuntime::OnSession(const SessionRecord& session) {
  Execute(protocol_.OnSession(options_.executor->Now(), session));
}

void GroupRuntime::OnStoreLost(const absl::Status& why) {
  Execute(protocol_.OnStoreLost(options_.executor->Now(), why));
}

// --- the actions. Each answer comes to the protocol by a later task of the control thread, never
// inside this loop.

void GroupRuntime::Execute(Actions actions) {
  const std::shared_ptr<GroupRuntime> keep =
      shared_from_this();  // a terminal state lets go of self_
  for (Action& action : actions) {
    std::visit([this](auto& alternative) { Do(alternative); }, action);
  }
}

void GroupRuntime::GatherMembers(const std::string& key, absl::string_view value,
                                 std::string waits_in, absl::Time deadline,
                                 Store::Callback<GatherResult> done) {
  options_.store->GatherAmong(
      key, {options_.rank, options_.size, options_.spec.members, std::move(waits_in)}, value,
      deadline, std::move(done));
}

void GroupRuntime::Do(action::Meet& action) {
  GatherMembers(
      action.key, action.value, options_.waits_in, action.deadline,
      [self = shared_from_this()](absl::StatusOr<GatherResult> result) {
        self->Execute(self->protocol_.OnMet(self->options_.executor->Now(), std::move(result)));
      });
}

void GroupRuntime::Do(action::Confirm& action) {
  GatherMembers(action.key, "", "", action.deadline,
                [self = shared_from_this()](absl::StatusOr<GatherResult> result) {
                  self->Execute(self->protocol_.OnAllConnected(self->options_.executor->Now(),
                                                               std::move(result)));
                });
}

void GroupRuntime::Do(action::Vote& action) {
  GatherMembers(
      action.key, action.value, "", action.deadline,
      [self = shared_from_this()](absl::StatusOr<GatherResult> result) {
        self->Execute(self->protocol_.OnVotes(self->options_.executor->Now(), std::move(result)));
      });
}

void GroupRuntime::Do(action::Withdraw& action) {
  options_.store->Withdraw(action.key, options_.rank, action.reason);
}

void GroupRuntime::Do(action::WriteRecord& action) {
  // The protocol has a bound of its own on a failure's cause; the store's deadline only ends the
  // request. A set-up that is under way has its own time for what it writes.
  absl::Time deadline = options_.executor->Now() + options_.spec.close_timeout;
  if (protocol_.state() == GroupState::kConnecting) {
    deadline = std::max(deadline, protocol_.setup_by());
  }
  options_.store->CompareAndSet(
      GroupRecordKey(scope_), action.expected, action.record.Encode(), Lifetime::kPersistent,
      deadline, [self = shared_from_this()](absl::StatusOr<CompareAndSetResult> result) {
        if (result.ok()) self->options_.news->Learn(self->scope_, result->current);
        self->Execute(
            self->protocol_.OnRecordWritten(self->options_.executor->Now(), std::move(result)));
      });
}

void GroupRuntime::Do(action::Connect& action) {
  // Unlike the group's id, no other group that is alive has it.
  const std::string group = absl::StrCat(scope_, "/", action.agreement.generation);
  {
    absl::MutexLock lock(&mutex_);
    generation_ = action.agreement.generation;
    backend_ = action.agreement.backend;
  }
  connect_store_ = std::make_unique<GroupConnectStore>(
      options_.store, group, options_.rank, options_.size, action.deadline, &connect_cancellation_);
  ConnectContext context;
  context.rank = options_.rank;
  context.size = options_.size;
  context.group = group;
  context.device = options_.spec.device;
  context.options = options_.spec.backend_options;
  context.bind_address = options_.bind_address;
  context.store = connect_store_.get();
  context.deadline = action.deadline;
  context.cancellation = &connect_cancellation_;
  RunOnHelper(
      kLife, "Connect",
      [this, context, name = action.agreement.backend]() -> absl::Status {
        absl::StatusOr<Backend*> backend = options_.backends->Find(name);
        if (!backend.ok()) return backend.status();
        if (absl::Status fault = HitFault(FaultPoint::kPoolConnecting, rank_in_job());
            !fault.ok()) {
          return fault;
        }
        const Capabilities capabilities = (*backend)->capabilities();
        absl::StatusOr<std::unique_ptr<Communicator>> communicator = (*backend)->Connect(context);
        if (!communicator.ok()) return SaidOfTheJob(communicator.status());
        if (*communicator == nullptr) {
          return absl::InternalError(absl::StrCat(
              "the backend \"", name, "\" said that it has connected, and gave no communicator"));
        }
        if (absl::Status fault = HitFault(FaultPoint::kPoolConnected, rank_in_job()); !fault.ok()) {
          return fault;
        }
        absl::MutexLock lock(&mutex_);
        if (given_up_) return absl::CancelledError("it came too late, and nobody waits for it");
        communicator_ = *std::move(communicator);
        capabilities_ = capabilities;
        return absl::OkStatus();
      },
      [this](absl::Status result) {
        ReleaseWhenUnused();
        Execute(protocol_.OnConnected(options_.executor->Now(), std::move(result)));
      });
}

void GroupRuntime::Do(action::Drain& action) {
  closed_by_ = action.closed_by;
  const bool drains =
      gate_.Drain(action.sequence, action.closed_by, [weak = weak_from_this()](int64_t completed) {
        if (auto self = weak.lock()) {
          self->Step([completed](GroupProtocol& protocol, absl::Time) {
            return protocol.OnDrained(completed);
          });
        }
      });
  if (drains) return;
  Step([why = absl::FailedPreconditionError(
            absl::StrCat(action.closed_by, ", and rank ", rank_in_job(), " was in ", gate_.Inside(),
                         " of ", protocol_.id()))](GroupProtocol& protocol, absl::Time now) {
    return protocol.Fail(now, why, Certainty::kCause);
  });
}

void GroupRuntime::Do(action::AskHolders&) {
  if (absl::Status fault = HitFault(FaultPoint::kPoolVoting, rank_in_job()); !fault.ok()) {
    return BeginAbort(fault);
  }
  // A rank that holds the group may only be a step behind the one that asks: it gets half of the
  // time that the vote has to let go of it. Said before it is asked for: an operation that ends
  // meanwhile sees the one, or is not seen by the other.
  asked_ = true;
  const std::string holders = AskHolders();
  if (holders.empty()) return AnswerHolders(holders);
  options_.executor->PostAt(
      options_.executor->Now() + options_.spec.close_timeout / 2,
      [weak = weak_from_this(), question = ++questions_] {
        auto self = weak.lock();
        if (self == nullptr || !self->asked_ || self->questions_ != question) {
          return;
        }
        self->AnswerHolders(self->AskHolders());
      });
}

// A lease may end before the operations that were started on it.
std::string GroupRuntime::AskHolders() {
  return options_.ask_holders([this] {
    const std::string inside = gate_.Inside();
    return inside.empty() ? "" : absl::StrCat(inside, " in flight");
  });
}

void GroupRuntime::AnswerHolders(const std::string& holders) {
  asked_ = false;
  Step([holders](GroupProtocol& protocol, absl::Time) { return protocol.OnHolders(holders); });
}

void GroupRuntime::OnHeldNoMore() {
  options_.executor->Post([self = shared_from_this()] {
    if (!self->asked_) return;
    const std::string holders = self->AskHolders();
    if (holders.empty()) self->AnswerHolders(holders);
  });
}

void GroupRuntime::Do(action::WakeAt& action) {
  options_.executor->Cancel(timer_);
  timer_ = 0;
  if (action.when == absl::InfiniteFuture()) return;
  timer_ = options_.executor->PostAt(action.when, [weak = weak_from_this()] {
    if (auto self = weak.lock()) {
      self->Execute(self->protocol_.OnTimer(self->options_.executor->Now()));
    }
  });
}

void GroupRuntime::Do(action::Enter& action) {
  if (options_.observer != nullptr) {
    options_.observer->OnTransition({protocol_.id(), rank_in_job(), action.from, action.event,
                                     action.to, options_.executor->Now(), protocol_.cause()});
  }
  if (action.to == GroupState::kReady) {
    connect_store_.reset();  // every rank has read what it needed
    watch_ = std::make_shared<OperationWatch>(
        options_.executor, options_.spec.cause_window,
        [weak = weak_from_this()](absl::string_view label, absl::Duration timeout) {
          if (auto self = weak.lock()) self->OnLate(label, timeout);
        });
    gate_.Open();
  }
  if (action.to == GroupState::kDraining) LeaveSplit();
  if (IsTerminal(action.to)) LetGo();
  {
    absl::MutexLock lock(&mutex_);
    state_ = action.to;
    if (action.to == GroupState::kReady) was_ready_ = true;
  }
  options_.changed();
}

void GroupRuntime::Do(action::CauseResolved& action) {
  // Before anybody has the cause: whoever waits for it may end the process.
  if (action.own) TellTorchrun(options_.error_file, protocol_.id(), action.cause);
  gate_.Refuse(action.cause, /*replace=*/true);
  LeaveSplit();  // not before: the others have this cause by now, or this rank has it alone
  std::vector<GivenUp> waiting;
  {
    absl::MutexLock lock(&mutex_);
    cause_ = action.cause;
    waiting.swap(wait_for_cause_);
  }
  for (const GivenUp& given_up : waiting) FinishWithCause(given_up.label, given_up.work);
  FinishQueued(action.cause);
}

void GroupRuntime::Do(action::ProposalRefused& action) {
  options_.vote_ended();
  for (const auto& refused : std::exchange(refused_, {})) refused(action.why);
  options_.changed();
}

void GroupRuntime::RunOnHelper(Helper helper, absl::string_view call,
                               absl::AnyInvocable<absl::Status()> task,
                               absl::AnyInvocable<void(absl::Status)> then) {
  helpers_[helper].busy = true;
  {
    absl::MutexLock lock(&mutex_);
    helper_inside_[helper] = std::string(call);
  }
  // The thread's last act gives its reference away, so it is not the one that destroys this object
  // (unless it was left behind, and the executor with it).
  auto finish = [helper](std::shared_ptr<GroupRuntime> self,
                         absl::AnyInvocable<void(absl::Status)> then, absl::Status result) {
    {
      absl::MutexLock lock(&self->mutex_);
      self->helper_inside_[helper].clear();
    }
    self->CrossOutResidue();
    const std::shared_ptr<Executor> executor = self->options_.executor;
    executor->Post([helper, self = std::move(self), then = std::move(then),
                    result = std::move(result)]() mutable {
      self->helpers_[helper].busy = false;
      then(std::move(result));
    });
  };
  auto shared_then = std::make_shared<absl::AnyInvocable<void(absl::Status)>>(std::move(then));
  absl::Status started = helpers_[helper].thread.Start(
      [self = shared_from_this(), task = std::move(task), shared_then, finish]() mutable {
        absl::Status result = self->CatchAll([&task] { return task(); });
        task = nullptr;
        finish(std::move(self), std::move(*shared_then), std::move(result));
      });
  if (!started.ok()) finish(shared_from_this(), std::move(*shared_then), started);
}

// --- what it is

std::string GroupRuntime::id() const {
  absl::MutexLock lock(&mutex_);
  return generation_ == 0 ? options_.spec.name : absl::StrCat(options_.spec.name, "/", generation_);
}

int64_t GroupRuntime::generation() const {
  absl::MutexLock lock(&mutex_);
  return generation_;
}

std::string GroupRuntime::backend() const {
  absl::MutexLock lock(&mutex_);
  return backend_;
}

Capabilities GroupRuntime::capabilities() const {
  absl::MutexLock lock(&mutex_);
  return capabilities_;
}

GroupState GroupRuntime::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

absl::Status GroupRuntime::status() const {
  absl::Status status = gate_.status();
  absl::MutexLock lock(&mutex_);
  // The gate stays open until the cause is known, so that what comes meanwhile waits for it.
  if (status.ok() && state_ == GroupState::kAborting) {
    return !cause_.ok()
               ? cause_
               : absl::UnavailableError(absl::StrCat("'", options_.spec.name, "/", generation_,
                                                     "' is aborting; its cause is not known yet"));
  }
  if (status.ok() || residue_ == nullptr) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; residue: ", residue_->residue));
}

}  // namespace muster

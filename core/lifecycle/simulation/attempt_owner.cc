// Attempt, its owner: the program that works, closes, aborts, lets go and asks again, each at any
// moment; and the gate and the leases of its pool.
#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "muster/core/lifecycle/simulation/attempt.h"

namespace muster::simulation {

void Attempt::After(absl::Duration delay, std::function<void(Attempt&)> step) {
  world_->schedule->Add({Lane::Kind::kOwner, life_.rank, 0}, delay, Later(std::move(step)));
}

void Attempt::AtSomeMoment(absl::Duration most, std::function<void(Attempt&)> step) {
  world_->schedule->Add({Lane::Kind::kFate, life_.rank, 0},
                        chooser().Between(absl::ZeroDuration(), most), Later(std::move(step)));
}

void Attempt::Start() {
  life_.started = life_.From(now());
  Plan();
  if (life_.state != GroupState::kCreated) return;
  Input("Start", [this] { return protocol_.Start(here()); });
}

void Attempt::Close() {
  if (!calm_ && !world_->calm) {
    ++world_->checker.tally().closes_in[static_cast<size_t>(life_.state)];
  }
  owner_closed_ = true;
  world_->checker.OnOwnerCloses(life_, issued_);
  if (life_.state == GroupState::kRendezvous || life_.state == GroupState::kConnecting) {
    life_.given.insert(Describe(absl::CancelledError(
        absl::StrCat("rank ", life_.rank, " closed '", id_, "' during its set-up"))));
  }
  const bool hasty = !world_->calm && world_->scenario.trouble > 0 && chooser().Chance(10);
  const absl::Duration timeout =
      hasty ? absl::Milliseconds(chooser().Below(1000)) : world_->scenario.close_timeout;
  life_.close_timeout = std::max(life_.close_timeout, timeout);
  Input(absl::StrCat("Close after #", issued_, " within ", absl::FormatDuration(timeout)),
        [&] { return protocol_.Close(here(), timeout, issued_); });
  if (!terminal() && world_->Strikes(Fault::kHurry, 30, life_.rank)) {
    Input("Hurry", [&] { return protocol_.Hurry(here(), world_->scenario.close_timeout / 2); });
  }
}

void Attempt::Abort(absl::string_view why) {
  ++world_->checker.tally().aborts_in[static_cast<size_t>(life_.state)];
  InputFailure("Abort",
               absl::CancelledError(absl::StrCat("rank ", life_.rank, " left: \"", why, "\"")),
               Certainty::kCause);
}

void Attempt::Propose() {
  world_->checker.OnPropose(life_, now());
  Input("Propose", [this] { return protocol_.Propose(here(), "backend"); });
}

void Attempt::Plan() {
  const absl::Duration most = world_->scenario.setup_timeout;
  const absl::Duration soon = absl::Milliseconds(60);
  if (world_->Strikes(Fault::kEarlyEnd, 10, life_.rank)) {
    chooser().Chance(50) ? Abort("before the start") : Close();
  }
  for (const absl::Duration limit : {most, soon}) {
    if (world_->Strikes(Fault::kAbort, 80, life_.rank)) {
      AtSomeMoment(limit, [](Attempt& self) { self.Abort("at some moment"); });
    }
    if (world_->Strikes(Fault::kClose, 80, life_.rank)) {
      AtSomeMoment(limit, [](Attempt& self) { self.Close(); });
    }
  }
}

// A close takes a short time only: what may come at any moment comes here, too.
void Attempt::PlanEnd() {
  const absl::Duration soon = 2 * world_->scenario.max_delay;
  if (world_->Strikes(Fault::kAbort, 40, life_.rank)) {
    AtSomeMoment(soon, [](Attempt& self) { self.Abort("during the close"); });
  }
  if (world_->Strikes(Fault::kClose, 40, life_.rank)) {
    AtSomeMoment(soon, [](Attempt& self) { self.Close(); });
  }
}

// --- leases

void Attempt::HandOut() {
  ++life_.leases;
  After(chooser().Between(absl::ZeroDuration(), absl::Milliseconds(50)),
        [](Attempt& self) { self.LetGo(); });
}

void Attempt::LetGo() {
  if (--life_.leases > 0 || !asked_) return;
  AnswerHolders();
}

void Attempt::Do(const action::AskHolders&) {
  asked_ = true;
  // A rank that holds it may only be a step behind the one that asks.
  if (held()) {
    host_->clock().PostAt(here() + world_->scenario.close_timeout / 2,
                          Later([](Attempt& self) { self.AnswerHolders(); }));
  } else if (world_->Strikes(Fault::kSlowHolders, 100, life_.rank)) {
    host_->clock().PostAt(here() + world_->scenario.close_timeout * 2,
                          Later([](Attempt& self) { self.AnswerHolders(); }));
  } else {
    world_->executor->Post(Later([](Attempt& self) { self.AnswerHolders(); }));
  }
}

void Attempt::AnswerHolders() {
  if (!std::exchange(asked_, false)) return;
  const std::string holders = held() ? absl::StrCat("trainer.cc:", 88 + life_.rank) : "";
  voting_ = holders.empty() && protocol_.voting();
  Input(absl::StrCat("OnHolders '", holders, "'"), [&] { return protocol_.OnHolders(holders); });
}

// --- work

bool Attempt::MayWork(int64_t number) const {
  if (world_->mutation == Mutation::kReviveWork && life_.was_ready) return true;
  if (owner_closed_ || life_.leases == 0) return false;
  if (life_.state == GroupState::kReady) return true;
  return life_.state == GroupState::kDraining && number <= limit_;
}

void Attempt::WorkOn() {
  if (in_flight_ || owner_closed_) return;
  const int64_t next = issued_ + 1;
  if (issued_ >= world_->PlannedWork(life_.generation)) return EndWork();
  if (life_.leases > 0 && world_->Strikes(Fault::kStuck, 15, life_.rank)) return;
  if (!MayWork(next)) return;
  issued_ = next;
  in_flight_ = true;
  world_->checker.OnWorkAccepted(life_, next, now());
  operation_timer_ = host_->clock().PostAt(here() + world_->scenario.operation_timeout,
                                           Later([next](Attempt& self) { self.OnWorkLate(next); }));
  world_->fabric.Work(fabric_group_, life_.rank, next,
                      [weak = weak_from_this(), next, this](absl::Status status) {
                        if (weak.expired()) return;
                        Later([next, status](Attempt& self) { self.OnWorkDone(next, status); })();
                      });
}

// The program is done with the group: it closes it, or lets go of it and may want another one.
void Attempt::EndWork() {
  if (life_.state != GroupState::kReady || life_.leases == 0) return;
  if (calm_ || (world_->PlansToClose(life_.generation) && chooser().Chance(60))) {
    Close();
    if (!terminal() && world_->Strikes(Fault::kClose, 200, life_.rank)) Close();
    return;
  }
  if (world_->PlansToClose(life_.generation)) return;  // the others do, or the end
  // Now, or so late that a proposal finds it held.
  if (chooser().Chance(85)) {
    LetGo();
  } else {
    After(chooser().Between(absl::ZeroDuration(), 3 * world_->scenario.close_timeout),
          [](Attempt& self) { self.LetGo(); });
  }
  if (chooser().Chance(20)) {
    After(chooser().Between(absl::ZeroDuration(), absl::Milliseconds(100)), [](Attempt& self) {
      if (!self.terminal()) self.Close();
    });
  }
  for (const bool another : {false, true}) {
    if (!chooser().Chance(another ? 60 : 40)) continue;
    After(chooser().Between(absl::ZeroDuration(), absl::Milliseconds(100)),
          [another](Attempt& self) { self.host_->AcquireAgain(self, another); });
  }
}

void Attempt::OnWorkDone(int64_t number, const absl::Status& status) {
  if (!in_flight_ || number != issued_) return;  // late: it was given up
  in_flight_ = false;
  life_.works = {};
  host_->clock().Cancel(operation_timer_);
  if (!status.ok()) {
    const Certainty certainty = CertaintyOf(status);
    InputFailure(absl::StrCat("all_reduce #", number, " failed"),
                 certainty == Certainty::kSuspicion
                     ? status
                     : absl::Status(status.code(),
                                    absl::StrCat("rank ", life_.rank, ": ", status.message())),
                 certainty);
    if (certainty == Certainty::kSuspicion && chooser().Chance(30)) {
      After(chooser().Between(absl::ZeroDuration(), world_->scenario.cause_window),
            [status](Attempt& self) {
              if (self.life_.state != GroupState::kAborting) return;
              self.InputFailure("another call fails", status, Certainty::kSuspicion);
            });
    }
    return;
  }
  completed_ = number;
  ReportWhenDrained();
  After(chooser().Between(absl::ZeroDuration(), absl::Milliseconds(30)),
        [](Attempt& self) { self.WorkOn(); });
}

void Attempt::OnWorkLate(int64_t number) {
  if (!in_flight_ || number != issued_) return;
  life_.works = {};
  InputFailure(absl::StrCat("all_reduce #", number, " is late"),
               absl::DeadlineExceededError(absl::StrCat("all_reduce #", number, " of ", id_,
                                                        " did not return on rank ", life_.rank)),
               Certainty::kCause);
}

void Attempt::ReportWhenDrained() {
  if (!draining_ || drain_reported_ || in_flight_ || completed_ < limit_) return;
  drain_reported_ = true;
  world_->executor->Post(Later([](Attempt& self) {
    self.Input(absl::StrCat("OnDrained #", self.completed_),
               [&self] { return self.protocol_.OnDrained(self.completed_); });
  }));
}

void Attempt::Do(const action::Drain& action) {
  world_->checker.OnDrain(life_, action.sequence);
  draining_ = true;
  drain_reported_ = false;
  limit_ = action.sequence;
  if (in_flight_ && issued_ > limit_) {
    const absl::Status why = absl::FailedPreconditionError(
        absl::StrCat(action.closed_by, ", and rank ", life_.rank, " was in #", issued_));
    world_->executor->Post(Later([why](Attempt& self) {
      self.InputFailure("a collective beyond the close is in flight", why, Certainty::kCause);
    }));
    return;
  }
  ReportWhenDrained();
}

}  // namespace muster::simulation

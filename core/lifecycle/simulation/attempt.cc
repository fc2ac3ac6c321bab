#include "muster/core/lifecycle/simulation/attempt.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::simulation {
namespace {

constexpr char kName[] = "train";

GroupProtocol::Options OptionsOf(const Scenario& scenario, Introduction introduction, int rank) {
  GroupProtocol::Options options;
  options.name = kName;
  options.rank = rank;
  options.size = scenario.size;
  options.introduction = std::move(introduction);
  options.setup_timeout = scenario.setup_timeout;
  options.close_timeout = scenario.close_timeout;
  options.cause_window = scenario.cause_window;
  return options;
}

}  // namespace

Attempt::Attempt(World* world, Host* host, Introduction introduction, int rank, int number)
    : world_(world),
      host_(host),
      protocol_(OptionsOf(world->scenario, introduction, rank)),
      calm_(world->calm) {
  life_.rank = rank;
  life_.number = number;
  life_.incarnation = introduction.incarnation;
  life_.entered = now();
}

void Attempt::Input(absl::string_view what, const std::function<Actions()>& step) {
  if (executing_) {
    world_->checker.Violate(absl::StrCat("an input while actions are executed: ", what));
  }
  executing_ = true;
  const Actions actions = step();
  ++world_->checker.tally().steps;
  life_.generation = protocol_.generation();
  if (world_->journal.enabled()) {
    world_->journal.Write(now(), life_.rank, absl::StrCat("#", life_.number, " ", what), actions);
  }
  for (const Action& action : actions) {
    std::visit([this](const auto& alternative) { Do(alternative); }, action);
  }
  executing_ = false;
  if (protocol_.state() != life_.state) {
    world_->checker.Violate("a state was entered without an action");
  }
}

std::function<void()> Attempt::Later(std::function<void(Attempt&)> step) {
  return [host = host_, weak = weak_from_this(), step = std::move(step)] {
    if (weak.expired()) return;  // and so is the host, perhaps
    host->Run([weak, step] {
      if (auto self = weak.lock()) step(*self);
    });
  };
}

void Attempt::After(absl::Duration delay, std::function<void(Attempt&)> step) {
  world_->executor.PostAt(now() + delay, Later(std::move(step)));
}

// --- the owner

void Attempt::Start() {
  life_.started = now();
  Plan();
  if (life_.state != GroupState::kCreated) return;
  Input("Start", [this] { return protocol_.Start(now()); });
}

void Attempt::Close() {
  owner_closed_ = true;
  const absl::Duration timeout = world_->Trouble(100)
                                     ? absl::Milliseconds(world_->random.Below(1000))
                                     : world_->scenario.close_timeout;
  life_.close_timeout = std::max(life_.close_timeout, timeout);
  Input(absl::StrCat("Close after #", issued_),
        [&] { return protocol_.Close(now(), timeout, issued_); });
}

void Attempt::Abort(absl::string_view why) {
  Input("Abort", [&] {
    return protocol_.Fail(
        now(), absl::CancelledError(absl::StrCat("rank ", life_.rank, " aborted: ", why)),
        Certainty::kCause);
  });
}

void Attempt::Plan() {
  const absl::Duration most = world_->scenario.setup_timeout;
  Random& random = world_->random;
  if (world_->Trouble(10)) Abort("before the start");
  if (world_->Trouble(80)) {
    After(random.Between(absl::ZeroDuration(), most),
          [](Attempt& self) { self.Abort("at some moment"); });
  }
  if (world_->Trouble(80)) {
    After(random.Between(absl::ZeroDuration(), absl::Milliseconds(60)),
          [](Attempt& self) { self.Abort("early"); });
  }
  if (world_->Trouble(100)) {
    After(random.Between(absl::ZeroDuration(), most), [](Attempt& self) { self.Close(); });
  }
  if (world_->Trouble(60)) {
    After(random.Between(absl::ZeroDuration(), absl::Milliseconds(60)),
          [](Attempt& self) { self.Close(); });
  }
}

bool Attempt::MayWork(int64_t number) const {
  if (world_->mutation == Mutation::kReviveWork && life_.was_ready) return true;
  if (life_.state == GroupState::kReady) return !owner_closed_;
  return life_.state == GroupState::kDraining && !owner_closed_ && number <= limit_;
}

void Attempt::WorkOn() {
  if (in_flight_ || owner_closed_) return;
  const int64_t next = issued_ + 1;
  if (issued_ >= world_->PlannedWork(life_.generation)) {
    if (life_.state != GroupState::kReady) return;
    // Whoever does not close is closed by the others, or at the end.
    if (calm_ || world_->random.Chance(60)) Close();
    if (world_->Trouble(200) && !terminal()) Close();
    return;
  }
  if (world_->Trouble(15)) return;  // stuck in user code
  if (!MayWork(next)) return;
  issued_ = next;
  in_flight_ = true;
  world_->checker.OnWorkAccepted(life_, next);
  world_->fabric.Work(fabric_group_, life_.rank, next,
                      [weak = weak_from_this(), next, this](absl::Status status) {
                        if (weak.expired()) return;
                        Later([next, status](Attempt& self) { self.OnWorkDone(next, status); })();
                      });
}

void Attempt::OnWorkDone(int64_t number, const absl::Status& status) {
  in_flight_ = false;
  if (!status.ok()) {
    Input(absl::StrCat("all_reduce #", number, " failed"),
          [&] { return protocol_.Fail(now(), status, Certainty::kSuspicion); });
    return;
  }
  completed_ = number;
  ReportWhenDrained();
  After(world_->random.Between(absl::ZeroDuration(), absl::Milliseconds(30)),
        [](Attempt& self) { self.WorkOn(); });
}

void Attempt::ReportWhenDrained() {
  if (!draining_ || drain_reported_ || in_flight_ || completed_ < limit_) return;
  drain_reported_ = true;
  world_->executor.Post(Later([](Attempt& self) {
    self.Input(absl::StrCat("OnDrained #", self.completed_),
               [&self] { return self.protocol_.OnDrained(self.completed_); });
  }));
}

// --- from the process

void Attempt::Hear(const GroupRecord& record) {
  if (!record.intent.has_value()) return;
  absl::Duration& heard = life_.heard_timeouts[record.generation];
  heard = std::max(heard, record.intent->timeout);
}

void Attempt::OnRecord(Revision revision, const GroupRecord& record) {
  Hear(record);
  Input(absl::StrCat("OnRecord revision ", revision, " generation ", record.generation),
        [&] { return protocol_.OnRecord(now(), revision, record); });
}

void Attempt::OnSession(const SessionRecord& session) {
  Input(absl::StrCat("OnSession ", session.WhatHappened(), " (", session.incarnation, ")"),
        [&] { return protocol_.OnSession(now(), session); });
}

void Attempt::OnCutOff() {
  life_.lost_store = true;
  world_->checker.OnMute(life_, now());
}

void Attempt::OnStoreLost(const absl::Status& why) {
  OnCutOff();
  Input("OnStoreLost", [&] { return protocol_.OnStoreLost(now(), why); });
}

void Attempt::OnStopped() { world_->checker.OnStopped(life_); }

void Attempt::OnPaused(absl::Duration pause) {
  life_.paused += pause;
  life_.was_paused = true;
}

void Attempt::Die() {
  life_.dead = true;
  world_->executor.Cancel(timer_);
  world_->checker.OnMute(life_, now());
  if (!fabric_group_.empty()) world_->fabric.Vanish(fabric_group_, life_.rank);
}

// --- actions

void Attempt::Gather(const std::string& key, const std::string& value, absl::Time deadline,
                     const char* name, GatherInput input) {
  host_->client().Gather(
      key, life_.rank, world_->scenario.size, value, deadline,
      [weak = weak_from_this(), this, name, input](absl::StatusOr<GatherResult> result) {
        if (weak.expired()) return;
        Later([name, input, result = std::move(result)](Attempt& self) {
          if (input == static_cast<GatherInput>(&GroupProtocol::OnMet) && result.ok()) {
            self.world_->checker.OnMet(self.life_, result->revision, self.now());
          }
          self.Input(absl::StrCat(name, " ", Describe(result.status())),
                     [&] { return (self.protocol_.*input)(self.now(), result); });
        })();
      });
}

void Attempt::Do(const action::Meet& action) {
  Gather(action.key, action.value, action.deadline, "OnMet", &GroupProtocol::OnMet);
}
void Attempt::Do(const action::Confirm& action) {
  Gather(action.key, "", action.deadline, "OnAllConnected", &GroupProtocol::OnAllConnected);
}
void Attempt::Do(const action::Vote& action) {
  Gather(action.key, action.value, action.deadline, "OnVotes", &GroupProtocol::OnVotes);
}

void Attempt::Do(const action::Withdraw& action) {
  if (world_->mutation == Mutation::kDropWithdraw) return;
  host_->client().Withdraw(action.key, life_.rank, action.reason);
}

void Attempt::Learn(const absl::StatusOr<CompareAndSetResult>& written) {
  if (!written.ok() || written->current.revision == 0) return;
  const absl::StatusOr<GroupRecord> record = GroupRecord::Decode(written->current.value);
  if (!record.ok()) return;
  Hear(*record);
  world_->checker.OnRecord(written->current.revision, *record);
  host_->Learn(written->current.revision, *record);
}

void Attempt::Do(const action::WriteRecord& action) {
  host_->client().CompareAndSet(
      GroupRecordKey(kName), action.expected, action.record.Encode(), Lifetime::kPersistent,
      now() + world_->scenario.close_timeout,
      [weak = weak_from_this(), this](absl::StatusOr<CompareAndSetResult> result) {
        if (weak.expired()) return;
        Later([result = std::move(result)](Attempt& self) {
          self.Learn(result);
          self.Input(absl::StrCat("OnRecordWritten ",
                                  result.ok() ? (result->swapped ? "swapped" : "in the way")
                                              : Describe(result.status())),
                     [&] { return self.protocol_.OnRecordWritten(self.now(), result); });
        })();
      });
}

void Attempt::Do(const action::Connect& action) {
  world_->checker.OnConnect(life_, action.agreement);
  fabric_group_ = absl::StrCat(action.agreement.generation, ":",
                               absl::StrJoin(action.agreement.incarnations, ","));
  world_->fabric.Connect(fabric_group_, life_.rank, world_->scenario.size, action.deadline,
                         [weak = weak_from_this(), this](absl::Status status) {
                           if (weak.expired()) return;
                           Later([status](Attempt& self) {
                             self.Input(absl::StrCat("OnConnected ", Describe(status)), [&] {
                               return self.protocol_.OnConnected(self.now(), status);
                             });
                           })();
                         });
}

void Attempt::Do(const action::Drain& action) {
  if (++life_.drains > 2) world_->checker.Violate("drained three times");
  draining_ = true;
  drain_reported_ = false;
  limit_ = action.sequence;
  if (in_flight_ && issued_ > limit_) {
    world_->executor.Post(Later(
        [why = absl::FailedPreconditionError(absl::StrCat(
             action.closed_by, ", and rank ", life_.rank, " was in #", issued_))](Attempt& self) {
          self.Input("a collective beyond the close is in flight",
                     [&] { return self.protocol_.Fail(self.now(), why, Certainty::kCause); });
        }));
    return;
  }
  ReportWhenDrained();
}

void Attempt::Do(const action::AskHolders&) {
  After(world_->Trouble(100) ? world_->scenario.close_timeout * 2 : absl::ZeroDuration(),
        [](Attempt& self) {
          const std::string holders =
              self.world_->Trouble(400) ? absl::StrCat("trainer.cc:", 88 + self.life_.rank) : "";
          self.Input(absl::StrCat("OnHolders '", holders, "'"),
                     [&] { return self.protocol_.OnHolders(holders); });
        });
}

void Attempt::Do(const action::Finalize&) {
  world_->checker.OnFinalized(life_);
  if (!draining_) ++world_->checker.tally().accepted_proposals;
  world_->fabric.Finalize(
      fabric_group_, life_.rank, [weak = weak_from_this(), this](absl::Status status) {
        if (weak.expired()) return;
        Later([status](Attempt& self) {
          self.Input(absl::StrCat("OnFinalized ", Describe(status)),
                     [&] { return self.protocol_.OnFinalized(self.now(), status); });
          if (!status.ok() || self.was_aborted_) return;
          self.world_->executor.Post(self.Later([](Attempt& closed) {
            if (std::exchange(closed.was_released_, true)) return;
            closed.Input("OnReleased", [&closed] { return closed.protocol_.OnReleased(); });
          }));
        })();
      });
}

void Attempt::Do(const action::AbortBackend&) {
  world_->checker.OnBackendAborted(life_);
  was_aborted_ = true;
  const auto released = Later([](Attempt& self) {
    if (std::exchange(self.was_released_, true)) return;
    self.Input("OnReleased", [&self] { return self.protocol_.OnReleased(); });
  });
  if (fabric_group_.empty()) {
    world_->executor.Post(released);
  } else {
    world_->fabric.Abort(fabric_group_, life_.rank, released);
  }
}

void Attempt::Do(const action::NameResidue&) {
  ++life_.residues;
  world_->executor.Post(Later([](Attempt& self) {
    if (std::exchange(self.was_released_, true)) return;
    self.Input("OnReleased, with residue", [&self] { return self.protocol_.OnReleased(); });
  }));
}

void Attempt::Do(const action::WakeAt& action) {
  world_->executor.Cancel(timer_);
  timer_ = 0;
  if (world_->mutation == Mutation::kLoseAlarms && world_->random.Chance(30)) return;
  if (action.when == absl::InfiniteFuture()) return;
  timer_ = world_->executor.PostAt(
      action.when, Later([](Attempt& self) {
        self.Input("OnTimer", [&self] { return self.protocol_.OnTimer(self.now()); });
      }));
}

void Attempt::Do(const action::Enter& action) {
  world_->checker.OnEnter(life_, action, now());
  if (action.to == GroupState::kReady && world_->Trouble(150)) {
    After(world_->random.Between(absl::ZeroDuration(), absl::Milliseconds(150)), [](Attempt& self) {
      self.Input("Propose", [&self] { return self.protocol_.Propose(self.now(), "backend"); });
    });
  }
  if (action.to == GroupState::kReady || action.to == GroupState::kDraining) {
    After(world_->random.Between(absl::ZeroDuration(), absl::Milliseconds(30)),
          [](Attempt& self) { self.WorkOn(); });
  }
  if (!IsTerminal(action.to)) return;
  world_->executor.Cancel(timer_);
  host_->OnTerminal();
}

void Attempt::Do(const action::CauseResolved& action) {
  world_->checker.OnCause(life_, action.cause);
}

void Attempt::Do(const action::ProposalRefused&) { ++world_->checker.tally().refused_proposals; }

}  // namespace muster::simulation

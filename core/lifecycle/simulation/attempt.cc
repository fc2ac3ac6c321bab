#include "muster/core/lifecycle/simulation/attempt.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::simulation {
namespace {

GroupProtocol::Options OptionsOf(const Scenario& scenario, const std::string& name,
                                 Introduction introduction, int rank) {
  GroupProtocol::Options options;
  options.name = name;
  options.rank = rank;
  options.size = scenario.size;
  options.introduction = std::move(introduction);
  options.setup_timeout = scenario.setup_timeout;
  options.close_timeout = scenario.close_timeout;
  options.cause_window = scenario.cause_window;
  return options;
}

}  // namespace

Attempt::Attempt(World* world, Host* host, const std::string& name, Introduction introduction,
                 int rank, int number)
    : world_(world),
      host_(host),
      name_(name),
      protocol_(OptionsOf(world->scenario, name, introduction, rank)),
      id_(name),
      calm_(world->calm) {
  life_.name = name;
  life_.era = host->era();
  life_.rank = rank;
  life_.number = number;
  life_.incarnation = introduction.incarnation;
  life_.entered = life_.From(now());
}

void Attempt::Input(absl::string_view what, const std::function<Actions()>& step) {
  if (executing_) {
    world_->checker.Violate(absl::StrCat("an input while actions are executed: ", what));
  }
  executing_ = true;
  const Actions actions = step();
  ++world_->checker.tally().steps;
  life_.generation = protocol_.generation();
  id_ = protocol_.id();
  NoteVote();
  if (world_->journal.enabled()) {
    world_->journal.Write(now(), life_.rank, absl::StrCat(id_, " #", life_.number, " ", what),
                          actions);
  }
  for (const Action& action : actions) {
    std::visit([this](const auto& alternative) { Do(alternative); }, action);
  }
  executing_ = false;
  if (protocol_.state() != life_.state) {
    world_->checker.Violate("a state was entered without an action");
  }
  CheckBounds();
}

void Attempt::NoteVote() {
  const bool votes = protocol_.voting() && protocol_.state() == GroupState::kReady;
  if (!votes) {
    life_.votes = {};
  } else if (life_.votes.time == absl::InfiniteFuture()) {
    life_.votes = life_.From(now());
  }
}

void Attempt::InputFailure(absl::string_view what, absl::Status why, Certainty certainty) {
  if (certainty == Certainty::kSuspicion) {
    Checker::OnSuspicion(life_, now());
  } else if (!terminal() && protocol_.cause().ok()) {
    life_.given.insert(Describe(why));
  }
  Input(what, [&] { return protocol_.Fail(here(), std::move(why), certainty); });
}

std::function<void()> Attempt::Later(std::function<void(Attempt&)> step) {
  return [host = host_, weak = weak_from_this(), step = std::move(step)] {
    if (weak.expired()) return;  // and so is the host, perhaps
    host->Run([weak, step] {
      if (auto self = weak.lock()) step(*self);
    });
  };
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
        [&] { return protocol_.OnRecord(here(), revision, record); });
}

void Attempt::OnSession(const SessionRecord& session) {
  const std::vector<uint64_t>& members = protocol_.agreement().incarnations;
  const auto index = static_cast<size_t>(session.rank);
  if (session.liveness == SessionRecord::Liveness::kLost && index < members.size() &&
      members[index] == session.incarnation) {
    world_->checker.OnLossKnown(life_, now());
  }
  const bool met_nobody = life_.state == GroupState::kRendezvous;
  Input(absl::StrCat("OnSession ", session.WhatHappened(), " (", session.incarnation, ")"),
        [&] { return protocol_.OnSession(here(), session); });
  if (met_nobody && life_.state != GroupState::kRendezvous) {
    const bool left = session.liveness == SessionRecord::Liveness::kLeft;
    ++(left ? world_->checker.tally().meetings_left : world_->checker.tally().meetings_lost);
  }
}

void Attempt::OnCutOff() {
  life_.lost_store = true;
  world_->checker.OnMute(life_);
}

void Attempt::OnStoreLost(const absl::Status& why) {
  OnCutOff();
  Input("OnStoreLost", [&] { return protocol_.OnStoreLost(here(), why); });
  world_->checker.OnStoreLost(life_);
}

void Attempt::OnStopped() { world_->checker.OnStopped(life_); }

void Attempt::OnResumed(absl::Duration stop) { world_->checker.OnResumed(life_, stop, now()); }

void Attempt::OnClockLeap(absl::Duration by) { world_->checker.OnClockLeap(life_, by, now()); }

void Attempt::Die() {
  life_.dead = true;
  host_->clock().Cancel(timer_);
  host_->clock().Cancel(operation_timer_);
  world_->checker.OnMute(life_);
  if (!fabric_group_.empty()) world_->fabric.Vanish(fabric_group_, life_.rank);
}

// --- actions: the store

void Attempt::Gather(const std::string& key, const std::string& value, absl::Time deadline,
                     const char* name, GatherInput input) {
  host_->client().GatherAmong(
      key, {life_.rank, world_->scenario.size, {}, ""}, value, deadline,
      [weak = weak_from_this(), this, name, input](absl::StatusOr<GatherResult> result) {
        if (weak.expired()) return;
        Later([name, input, result = std::move(result)](Attempt& self) {
          self.OnGathered(name, input, result);
        })();
      });
}

void Attempt::OnGathered(const char* name, GatherInput input,
                         const absl::StatusOr<GatherResult>& result) {
  const bool meets = input == static_cast<GatherInput>(&GroupProtocol::OnMet);
  if (!meets && !result.ok() && !absl::IsDeadlineExceeded(result.status())) {
    Checker::OnSuspicion(life_, now());
  }
  Input(absl::StrCat(name, " ", Describe(result.status())),
        [&] { return (protocol_.*input)(here(), result); });
  if (!meets || !result.ok()) return;
  life_.members = protocol_.agreement().incarnations;
  world_->checker.OnMet(life_, result->revision, now());
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
  world_->checker.OnRecord(life_.era, name_, written->current.revision, *record, now());
  host_->Learn(name_, written->current.revision, *record);
}

void Attempt::Do(const action::WriteRecord& action) {
  world_->checker.OnWriteRecord(life_, action.record, now());
  host_->client().CompareAndSet(
      GroupRecordKey(name_), action.expected, action.record.Encode(), Lifetime::kPersistent,
      here() + world_->scenario.close_timeout,
      [weak = weak_from_this(), this](absl::StatusOr<CompareAndSetResult> result) {
        if (weak.expired()) return;
        Later([result = std::move(result)](Attempt& self) {
          self.Learn(result);
          self.Input(absl::StrCat("OnRecordWritten ",
                                  result.ok() ? (result->swapped ? "swapped" : "in the way")
                                              : Describe(result.status())),
                     [&] { return self.protocol_.OnRecordWritten(self.here(), result); });
        })();
      });
}

// --- actions: the backend

void Attempt::Do(const action::Connect& action) {
  world_->checker.OnConnect(life_, action.agreement);
  fabric_group_ = absl::StrCat(name_, "/", action.agreement.generation, ":",
                               absl::StrJoin(action.agreement.incarnations, ","));
  world_->fabric.Connect(fabric_group_, life_.rank, world_->scenario.size, action.deadline - here(),
                         [weak = weak_from_this(), this](absl::Status status) {
                           if (weak.expired()) return;
                           Later([status](Attempt& self) {
                             if (CertaintyOf(status) == Certainty::kSuspicion) {
                               Checker::OnSuspicion(self.life_, self.now());
                             }
                             self.Input(absl::StrCat("OnConnected ", Describe(status)), [&] {
                               return self.protocol_.OnConnected(self.here(), status);
                             });
                           })();
                         });
}

void Attempt::Do(const action::Finalize&) {
  world_->checker.OnFinalized(life_);
  if (!life_.drained) ++world_->checker.tally().accepted_proposals;
  world_->fabric.Finalize(
      fabric_group_, life_.rank, [weak = weak_from_this(), this](absl::Status status) {
        if (weak.expired()) return;
        Later([status](Attempt& self) {
          self.Input(absl::StrCat("OnFinalized ", Describe(status)),
                     [&] { return self.protocol_.OnFinalized(self.here(), status); });
          if (!status.ok() || self.was_aborted_) return;
          self.world_->executor->Post(
              self.Later([](Attempt& closed) { closed.OnReleased("OnReleased"); }));
        })();
      });
}

void Attempt::OnReleased(absl::string_view what) {
  if (std::exchange(life_.released, true)) return;
  Input(what, [this] { return protocol_.OnReleased(); });
}

void Attempt::Do(const action::AbortBackend&) {
  world_->checker.OnBackendAborted(life_);
  was_aborted_ = true;
  const auto released = Later([](Attempt& self) { self.OnReleased("OnReleased"); });
  if (fabric_group_.empty()) {
    world_->executor->Post(released);
  } else {
    world_->fabric.Abort(fabric_group_, life_.rank, released);
  }
}

void Attempt::Do(const action::NameResidue&) {
  ++life_.residues;
  world_->executor->Post(Later([](Attempt& self) { self.OnReleased("OnReleased, with residue"); }));
}

// --- actions: the rest

void Attempt::Do(const action::WakeAt& action) {
  host_->clock().Cancel(timer_);
  timer_ = 0;
  if (world_->mutation == Mutation::kLoseAlarms && chooser().Chance(30)) return;
  if (action.when == absl::InfiniteFuture()) return;
  timer_ = host_->clock().PostAt(
      action.when, Later([](Attempt& self) {
        self.Input("OnTimer", [&self] { return self.protocol_.OnTimer(self.here()); });
      }));
}

void Attempt::Do(const action::Enter& action) {
  world_->checker.OnEnter(life_, action, now());
  if (action.to == GroupState::kReady && action.from != GroupState::kReady) ++life_.leases;
  if (action.to == GroupState::kReady || action.to == GroupState::kDraining) {
    After(chooser().Between(absl::ZeroDuration(), absl::Milliseconds(30)),
          [](Attempt& self) { self.WorkOn(); });
  }
  if (action.to == GroupState::kDraining || action.to == GroupState::kClosing) PlanEnd();
  if (terminal()) {
    host_->clock().Cancel(timer_);
    host_->clock().Cancel(operation_timer_);
  }
  host_->OnChanged(*this);
}

void Attempt::Do(const action::CauseResolved& action) {
  world_->checker.OnCause(life_, action.cause, now());
}

void Attempt::Do(const action::ProposalRefused&) {
  ++world_->checker.tally().refused_proposals;
  voting_ = false;
  life_.proposed = {};
  host_->OnChanged(*this);
}

}  // namespace muster::simulation

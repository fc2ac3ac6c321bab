#include "muster/core/lifecycle/simulation/checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "muster/core/lifecycle/simulation/journal.h"

namespace muster::simulation {

// --- L8: generations

void Checker::OnConnect(Life& life, const Agreement& agreement) {
  life.connected = true;
  Generation& generation = Of(life);
  if (generation.incarnations.empty()) generation.incarnations = agreement.incarnations;
  if (generation.incarnations != agreement.incarnations) {
    Violate(absl::StrCat("L8: generation ", agreement.generation, " was given out twice (",
                         Describe(life), ")"));
  }
  int64_t& latest = latest_of_[{life.incarnation, life.name}];
  if (agreement.generation <= latest) {
    Violate(absl::StrCat("L8: after generation ", latest, " came ", agreement.generation, " (",
                         Describe(life), ")"));
  }
  latest = std::max(latest, agreement.generation);
}

// --- the states, L5, L7, L9

// A close that waits for a vote on a replacement, whose holders may think for half of a close, has
// no more than the rest of its time for its own messages.
bool Checker::VoteMayTakeTheClose(const Life& life) {
  return Of(life).proposed && life.close_timeout < scenario_.close_timeout / 2 + 2 * NewsBound();
}

void Checker::OnEnter(Life& life, const action::Enter& enter, absl::Time now) {
  if (IsTerminal(life.state)) Violate(absl::StrCat("L5: a second end (", Describe(life), ")"));
  if (enter.from != life.state) {
    Violate(absl::StrCat("a transition from ", Name(enter.from), " (", Describe(life), ")"));
  }
  if (enter.to != life.state) {
    life.entered = life.From(now);
    if (enter.from == GroupState::kReady) life.proposed = life.votes = {};
  }
  const GroupState from = std::exchange(life.state, enter.to);
  ++tally_.entered[static_cast<size_t>(enter.to)];
  switch (enter.to) {
    case GroupState::kReady:
      if (!life.was_ready) ++tally_.ready;
      life.was_ready = true;
      break;
    case GroupState::kDraining: {
      const Generation& generation = Of(life);
      if (from == GroupState::kReady && !generation.closed && !generation.proposed) {
        Violate(absl::StrCat("L9: it closes, and no owner wants that (", Describe(life), ")"));
      }
      break;
    }
    case GroupState::kClosing:
      life.was_closing = true;
      if (!life.drained && life.leases > 0) {
        Violate(absl::StrCat("L9: it is replaced while it is held (", Describe(life), ")"));
      }
      break;
    case GroupState::kAborting:
      if (scenario_.trouble == 0 && !scenario_.rough && !calm_ && !VoteMayTakeTheClose(life)) {
        Violate(absl::StrCat("Close: it failed, though nothing went wrong (", Describe(life), ")"));
      }
      OnFailed(life, now);
      break;
    case GroupState::kDestroyed:
      ++tally_.destroyed;
      CheckGaveBack(life);
      break;
    case GroupState::kAborted:
      ++tally_.aborted;
      if (!life.cause.has_value()) {
        Violate(absl::StrCat("L4: aborted without a cause (", Describe(life), ")"));
      }
      CheckGaveBack(life);
      break;
    default:
      break;
  }
}

// What was set up is undone, and the backend has said so.
void Checker::CheckGaveBack(const Life& life) {
  if (life.connected && life.finalizations + life.aborts == 0) {
    Violate(absl::StrCat("L7: it has ended with its backend in use (", Describe(life), ")"));
  }
  if (life.connected && !life.released) {
    Violate(absl::StrCat("L2: it has ended before its backend let go (", Describe(life), ")"));
  }
}

void Checker::OnBackendAborted(Life& life) {
  if (++life.aborts > 1) {
    Violate(absl::StrCat("L5: the backend was aborted twice (", Describe(life), ")"));
  }
}

void Checker::OnFinalized(Life& life) {
  if (++life.finalizations > 1) {
    Violate(absl::StrCat("L5: the backend was finalized twice (", Describe(life), ")"));
  }
  if (life.works.time != absl::InfiniteFuture()) {
    Violate(absl::StrCat("L3: finalized with a collective in flight (", Describe(life), ")"));
  }
  if (life.aborts > 0) {
    Violate(absl::StrCat("L5: finalized after the abort (", Describe(life), ")"));
  }
}

void Checker::OnStoreLost(const Life& life) {
  if (life.state == GroupState::kCreated || life.state == GroupState::kClosing ||
      life.state == GroupState::kAborting || IsTerminal(life.state)) {
    return;
  }
  Violate(absl::StrCat("L4: it goes on without a store (", Describe(life), ")"));
}

void Checker::OnOwnerCloses(Life& life, int64_t issued) {
  life.last_allowed = std::min(life.last_allowed, issued);
  if (life.generation != 0) Of(life).closed = true;
}

void Checker::OnPropose(Life& life, absl::Time now) {
  if (life.generation != 0) Of(life).proposed = true;
  if (life.state == GroupState::kReady && life.proposed.time == absl::InfiniteFuture()) {
    life.proposed = life.From(now);
  }
}

// --- L3

void Checker::OnDrain(Life& life, int64_t sequence) {
  life.drained = true;
  if (++life.drains > 2) Violate(absl::StrCat("L3: drained three times (", Describe(life), ")"));
  life.last_allowed = std::min(life.last_allowed, sequence);
}

void Checker::OnWorkAccepted(Life& life, int64_t number, absl::Time now) {
  ++tally_.collectives;
  life.works = life.From(now);
  if (life.state != GroupState::kReady && life.state != GroupState::kDraining) {
    Violate(absl::StrCat("L3: collective #", number, " was let in (", Describe(life), ")"));
  }
  if (number > life.last_allowed) {
    Violate(absl::StrCat("L3: collective #", number, " was let in after the close at #",
                         life.last_allowed, " (", Describe(life), ")"));
  }
}

// --- L1

void Checker::CheckBounds(const Life& life, absl::Time now) {
  CheckKnown(life, now);
  CheckMeeting(life, now);
  // A slow rank does late what its alarm tells it.
  const auto check = [&](const Life::Since& since, absl::Duration bound, absl::string_view what) {
    const absl::Duration lasts = life.Lasted(since, now);
    if (lasts <= bound + scenario_.slowness) return;
    Violate(absl::StrCat("L1: ", what, " for ", absl::FormatDuration(lasts), " (", Describe(life),
                         ")"));
  };
  absl::Duration bound = absl::InfiniteDuration();
  switch (life.state) {
    case GroupState::kRendezvous:
    case GroupState::kConnecting:
      bound = scenario_.setup_timeout + scenario_.cause_window;
      check(life.started, bound, "in its set-up");
      break;
    case GroupState::kReady:
      check(life.works, scenario_.operation_timeout, "in a collective");
      // That long for those who asked first, and again for the vote.
      check(life.proposed, 2 * scenario_.close_timeout, "a proposal without an answer");
      check(life.votes, scenario_.close_timeout, "in a vote");
      break;
    case GroupState::kDraining:
    case GroupState::kClosing:
      bound = std::max(life.close_timeout, scenario_.close_timeout);
      // Whoever closes with more patience gives it to the others.
      if (const auto heard = life.heard_timeouts.find(life.generation);
          heard != life.heard_timeouts.end()) {
        bound = std::max(bound, heard->second);
      }
      break;
    case GroupState::kAborting:
      bound = scenario_.close_timeout + scenario_.cause_window;
      break;
    default:
      break;
  }
  check(life.entered, bound, "in one state");
}

}  // namespace muster::simulation

#include "muster/core/lifecycle/simulation/checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "muster/core/lifecycle/simulation/journal.h"

namespace muster::simulation {
namespace {

std::string Who(const Life& life) {
  return absl::StrCat("rank ", life.rank, ", attempt ", life.number, ", generation ",
                      life.generation, ", ", Name(life.state));
}

}  // namespace

void Tally::Add(const Tally& other) {
  steps += other.steps;
  lives += other.lives;
  ready += other.ready;
  destroyed += other.destroyed;
  aborted += other.aborted;
  causes_shared += other.causes_shared;
  dead += other.dead;
  residues += other.residues;
  lost_store += other.lost_store;
  refused_proposals += other.refused_proposals;
  accepted_proposals += other.accepted_proposals;
  collectives += other.collectives;
  slowest_recovery = std::max(slowest_recovery, other.slowest_recovery);
}

void Checker::OnRecord(Revision revision, const GroupRecord& record) {
  const auto [known, is_new] = records_.emplace(revision, record.Encode());
  if (!is_new) {
    if (known->second != record.Encode()) {
      Violate(absl::StrCat("L8: two records with revision ", revision));
    }
    return;
  }
  // L8, and one order of events for all: judged over the revisions, in whatever order ranks hear of
  // them.
  if (known != records_.begin()) {
    const absl::StatusOr<GroupRecord> before = GroupRecord::Decode(std::prev(known)->second);
    if (before.ok() && before->generation > record.generation) {
      Violate(absl::StrCat("L8: the record went back from generation ", before->generation, " to ",
                           record.generation));
    }
    if (before.ok() && before->generation == record.generation && !before->cause.ok() &&
        before->cause != record.cause) {
      Violate(absl::StrCat("L4: the first cause of generation ", record.generation,
                           " was replaced: ", Describe(before->cause), " by ",
                           Describe(record.cause)));
    }
  }
  if (!record.cause.ok()) {
    Generation& generation = generations_[record.generation];
    if (generation.cause.ok()) generation.cause = record.cause;
  }
}

void Checker::OnConnect(const Life& life, const Agreement& agreement) {
  Generation& generation = generations_[agreement.generation];
  if (generation.incarnations.empty()) generation.incarnations = agreement.incarnations;
  if (generation.incarnations != agreement.incarnations) {
    Violate(absl::StrCat("L8: generation ", agreement.generation, " was given out twice (",
                         Who(life), ")"));
  }
  int64_t& latest = latest_of_[life.incarnation];
  if (agreement.generation <= latest) {
    Violate(absl::StrCat("L8: after generation ", latest, " came ", agreement.generation, " (",
                         Who(life), ")"));
  }
  latest = std::max(latest, agreement.generation);
}

void Checker::OnEnter(Life& life, const action::Enter& enter, absl::Time now) {
  if (IsTerminal(life.state)) Violate(absl::StrCat("L5: a second end (", Who(life), ")"));
  if (enter.from != life.state) {
    Violate(absl::StrCat("a transition from ", Name(enter.from), " (", Who(life), ")"));
  }
  if (enter.to != life.state) {
    life.entered = now;
    life.paused = absl::ZeroDuration();
  }
  life.state = enter.to;
  if (enter.to == GroupState::kReady) {
    if (!life.was_ready) ++tally_.ready;
    life.was_ready = true;
  }
  if (enter.to == GroupState::kClosing) life.was_closing = true;
  if (enter.to == GroupState::kAborting && scenario_.trouble == 0 && !scenario_.rough && !calm_) {
    Violate(absl::StrCat("it failed, though nothing went wrong (", Who(life), ")"));
  }
  if (enter.to == GroupState::kAborting) OnGone(life, now);
  if (enter.to == GroupState::kDestroyed) ++tally_.destroyed;
  if (enter.to == GroupState::kAborted) {
    ++tally_.aborted;
    if (!life.cause.has_value()) Violate(absl::StrCat("aborted without a cause (", Who(life), ")"));
  }
}

void Checker::OnCause(Life& life, const absl::Status& cause) {
  if (life.cause.has_value()) Violate(absl::StrCat("L5: a second cause (", Who(life), ")"));
  if (cause.ok()) Violate(absl::StrCat("a cause that is OK (", Who(life), ")"));
  // The protocol's own word for a generation that others have left behind.
  if (absl::IsAborted(cause) && life.generation != 0 && !scenario_.rough && !life.was_paused) {
    Violate(absl::StrCat("L8: ", cause.message(), " (", Who(life), ")"));
  }
  life.cause = cause;
}

void Checker::OnBackendAborted(Life& life) {
  if (++life.aborts > 1) {
    Violate(absl::StrCat("L5: the backend was aborted twice (", Who(life), ")"));
  }
}

void Checker::OnFinalized(Life& life) {
  if (++life.finalizations > 1) {
    Violate(absl::StrCat("L5: the backend was finalized twice (", Who(life), ")"));
  }
  if (life.aborts > 0) Violate(absl::StrCat("L5: finalized after the abort (", Who(life), ")"));
}

void Checker::OnWorkAccepted(const Life& life, int64_t number) {
  ++tally_.collectives;
  if (life.state != GroupState::kReady && life.state != GroupState::kDraining) {
    Violate(absl::StrCat("L3: collective #", number, " was let in (", Who(life), ")"));
  }
}

void Checker::OnMet(Life& life, Revision meeting, absl::Time now) {
  life.meeting = meeting;
  if (life.state == GroupState::kAborting || IsTerminal(life.state)) OnGone(life, now);
}

// It writes its cause, perhaps after the window of a suspicion and some lost races.
void Checker::OnGone(const Life& life, absl::Time now) {
  if (life.meeting == 0 || life.was_paused) return;
  known_by_[life.meeting].emplace(life.rank,
                                  now + scenario_.cause_window + 12 * scenario_.max_delay);
}

void Checker::OnStopped(const Life& life) {
  if (const auto found = known_by_.find(life.meeting); found != known_by_.end()) {
    found->second.erase(life.rank);
  }
}

// The store finds out by the silence.
void Checker::OnMute(const Life& life, absl::Time now) {
  if (life.meeting == 0) return;
  known_by_[life.meeting][life.rank] = now + 2 * scenario_.heartbeat_timeout +
                                       scenario_.loss_grace + scenario_.cause_window +
                                       scenario_.close_timeout + 12 * scenario_.max_delay;
}

void Checker::CheckBounds(const Life& life, absl::Time now) {
  const absl::Duration here = now - life.entered - life.paused;
  absl::Duration bound = absl::InfiniteDuration();
  if (life.state == GroupState::kConnecting || life.state == GroupState::kReady) {
    const auto known_by = known_by_.find(life.meeting);
    if (known_by != known_by_.end() && !scenario_.rough && !life.was_paused && !life.lost_store) {
      for (const auto& [rank, time] : known_by->second) {
        if (rank == life.rank || now <= time) continue;
        Violate(absl::StrCat("L4: ", absl::FormatDuration(now - time),
                             " after it should know that rank ", rank, " is gone (", Who(life),
                             ")"));
      }
    }
  }
  switch (life.state) {
    case GroupState::kRendezvous:
      bound = scenario_.setup_timeout + scenario_.cause_window;
      break;
    case GroupState::kConnecting:
      bound = scenario_.setup_timeout + scenario_.cause_window;
      if (now - life.started - life.paused > bound && !life.was_paused) {
        Violate(absl::StrCat("L1: set-up took ", absl::FormatDuration(now - life.started), " (",
                             Who(life), ")"));
      }
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
  if (here > bound) {
    Violate(
        absl::StrCat("L1: for ", absl::FormatDuration(here), " in one state (", Who(life), ")"));
  }
}

void Checker::CheckCauses() {
  std::map<int64_t, std::map<std::string, std::string>>
      causes;  // by generation: cause to an example of who reported it
  std::map<int64_t, int> reports;
  for (const Life& life : ended_) {
    ++tally_.lives;
    tally_.dead += life.dead;
    tally_.residues += life.residues;
    tally_.lost_store += life.lost_store;
    if (life.dead) continue;
    if (!IsTerminal(life.state)) Violate(absl::StrCat("L1: it never ended (", Who(life), ")"));
    // Exceptions of the contract: who lost the store, or failed after the agreement to close, has a
    // cause of its own. Before the ranks have met they share no generation. A rank that was stopped
    // longer than its bounds allow reports what it knew.
    if (life.generation == 0 || life.state != GroupState::kAborted || life.was_closing ||
        life.lost_store || life.was_paused) {
      continue;
    }
    if (scenario_.rough) continue;
    const std::string cause = Describe(*life.cause);
    causes[life.generation].emplace(cause, Who(life));
    ++reports[life.generation];
    const absl::Status& recorded = generations_[life.generation].cause;
    if (recorded != *life.cause) {
      Violate(absl::StrCat("L4: ", Who(life), " reports '", cause, "', the record says '",
                           Describe(recorded), "'"));
    }
  }
  for (const auto& [generation, by_cause] : causes) {
    tally_.causes_shared += reports[generation] > 1;
    if (by_cause.size() < 2) continue;
    Violate(absl::StrCat("L4: generation ", generation, " has two causes: '",
                         by_cause.begin()->first, "' (", by_cause.begin()->second, ") and '",
                         std::next(by_cause.begin())->first, "' (",
                         std::next(by_cause.begin())->second, ")"));
  }
}

}  // namespace muster::simulation

// Checker: the one record of a name (L8), and that all learn one cause, in time and the right one
// (L4).
#include <algorithm>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "muster/core/lifecycle/simulation/checker.h"
#include "muster/core/lifecycle/simulation/journal.h"

namespace muster::simulation {
namespace {

// What Fabric and the gathers of the store say when somebody else is gone.
bool IsSuspicion(const absl::Status& cause) {
  return absl::StrContains(cause.message(), "lost contact with") ||
         (!absl::IsDeadlineExceeded(cause) &&
          (absl::StrContains(cause.message(), "did not all connect") ||
           absl::StrContains(cause.message(), "did not agree to close")));
}

}  // namespace

void Checker::OnRecord(int era, const std::string& name, Revision revision,
                       const GroupRecord& record, absl::Time now) {
  std::map<Revision, std::string>& records = eras_[era].records[name];
  const auto [known, is_new] = records.emplace(revision, record.Encode());
  if (!is_new) {
    if (known->second != record.Encode()) {
      Violate(absl::StrCat("L8: two records with revision ", revision));
    }
    return;
  }
  // One order of events for all: judged over the revisions, in whatever order ranks hear of them.
  if (known != records.begin()) {
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
  CheckRecordedCause(era, name, record, now);
}

// A suspicion is held for the window, in case its cause becomes known.
void Checker::CheckRecordedCause(int era, const std::string& name, const GroupRecord& record,
                                 absl::Time now) {
  if (record.cause.ok()) return;
  Generation& generation = eras_[era].generations[{name, record.generation}];
  if (!generation.cause.ok()) return;
  generation.cause = record.cause;
  if (generation.incarnations.empty()) generation.incarnations = record.incarnations;
  if (IsSuspicion(record.cause) && now < generation.first_suspicion + scenario_.cause_window) {
    Violate(absl::StrCat(
        "L4: a suspicion was written ", absl::FormatDuration(now - generation.first_suspicion),
        " after it arose, before its cause could be known: ", Describe(record.cause)));
  }
  // That rank writes it at once, perhaps after some lost races.
  if (IsSuspicion(record.cause) && now > generation.loss_known + 6 * scenario_.latency()) {
    Violate(absl::StrCat("L4: a suspicion was written, though a member's loss was known for ",
                         absl::FormatDuration(now - generation.loss_known), ": ",
                         Describe(record.cause)));
  }
}

void Checker::OnLossKnown(const Life& life, absl::Time now) {
  const bool tells = life.state == GroupState::kConnecting || life.state == GroupState::kReady ||
                     life.state == GroupState::kDraining;
  if (!tells || life.excused() || scenario_.rough) return;
  Generation& generation = Of(life);
  generation.loss_known = std::min(generation.loss_known, now);
}

void Checker::OnSuspicion(const Life& life, absl::Time now) {
  Generation& generation = Of(life);
  generation.first_suspicion = std::min(generation.first_suspicion, now);
}

// Nobody is declared dead who did nothing.
void Checker::OnSessionLost(const SessionRecord& session) {
  if (scenario_.rough || at_fault_.count(session.incarnation) != 0) return;
  Violate(absl::StrCat("L4: ", session.WhatHappened(), ", though its process lives"));
}

void Checker::OnCause(Life& life, const absl::Status& cause) {
  if (life.cause.has_value()) Violate(absl::StrCat("L5: a second cause (", Describe(life), ")"));
  if (cause.ok()) Violate(absl::StrCat("L4: a cause that is OK (", Describe(life), ")"));
  // The protocol's own word for a generation that others have left behind.
  if (absl::StrContains(cause.message(), "was replaced by generation") && !scenario_.rough &&
      !life.excused()) {
    Violate(absl::StrCat("L8: ", cause.message(), " (", Describe(life), ")"));
  }
  life.cause = cause;
  CheckReport(life);
}

// Exceptions of the contract: who lost the store, or failed after the agreement to close, has a
// cause of its own. Before the ranks have met they share no generation. A rank that was stopped
// longer than its bounds allow, or that the store did not answer, reports what it knew.
void Checker::CheckReport(const Life& life) {
  if (life.generation == 0 || life.was_closing || life.excused() || scenario_.rough) return;
  Generation& generation = Of(life);
  ++generation.reports;
  generation.told.emplace(Describe(*life.cause), Describe(life));
  if (generation.told.size() < 2) return;
  const auto first = generation.told.begin();
  Violate(absl::StrCat("L4: generation ", life.generation, " has two causes: '", first->first,
                       "' (", first->second, ") and '", std::next(first)->first, "' (",
                       std::next(first)->second, ")"));
}

void Checker::OnMet(Life& life, Revision meeting, absl::Time now) {
  life.meeting = meeting;
  if (life.state == GroupState::kAborting || IsTerminal(life.state)) OnGone(life, now);
}

// It writes its cause, perhaps after the window of a suspicion and some lost races.
void Checker::OnGone(const Life& life, absl::Time now) {
  if (life.meeting == 0 || life.was_paused) return;
  eras_[life.era].known_by[life.meeting].emplace(
      life.rank, now + scenario_.cause_window + 12 * scenario_.latency());
}

void Checker::OnStopped(const Life& life) {
  Of(life).loss_known = absl::InfiniteFuture();
  auto& known_by = eras_[life.era].known_by;
  if (const auto found = known_by.find(life.meeting); found != known_by.end()) {
    found->second.erase(life.rank);
  }
}

// The store finds out by the silence.
void Checker::OnMute(const Life& life, absl::Time now) {
  Of(life).loss_known = absl::InfiniteFuture();
  if (life.meeting == 0) return;
  eras_[life.era].known_by[life.meeting][life.rank] =
      now + 2 * scenario_.heartbeat_timeout + scenario_.loss_grace + scenario_.cause_window +
      scenario_.close_timeout + 12 * scenario_.latency();
}

void Checker::CheckKnown(const Life& life, absl::Time now) {
  if (life.state != GroupState::kConnecting && life.state != GroupState::kReady) return;
  if (scenario_.rough || life.excused()) return;
  const auto& known_by = eras_[life.era].known_by;
  const auto found = known_by.find(life.meeting);
  if (found == known_by.end()) return;
  for (const auto& [rank, time] : found->second) {
    if (rank == life.rank || now <= time) continue;
    Violate(absl::StrCat("L4: ", absl::FormatDuration(now - time),
                         " after it should know that rank ", rank, " is gone (", Describe(life),
                         ")"));
  }
}

// Whom a cause blames has done something.
void Checker::CheckBlame(const std::string& name, int64_t number, const Generation& generation) {
  GroupRecord record;
  record.cause = generation.cause;
  const std::optional<int> rank = record.RankAtFault();
  if (!rank.has_value() || generation.guilty.count(*rank) != 0) return;
  const auto index = static_cast<size_t>(*rank);
  if (index < generation.incarnations.size() &&
      at_fault_.count(generation.incarnations[index]) != 0) {
    return;
  }
  Violate(absl::StrCat("L4: ", name, "/", number, " blames rank ", *rank,
                       ", which did nothing: ", Describe(generation.cause)));
}

void Checker::CheckCauses() {
  for (const Life& life : ended_) {
    ++tally_.lives;
    tally_.dead += life.dead;
    tally_.residues += life.residues;
    tally_.lost_store += life.lost_store;
    if (life.guilty) Of(life).guilty.insert(life.rank);
    if (life.dead) continue;
    if (!IsTerminal(life.state)) Violate(absl::StrCat("L1: it never ended (", Describe(life), ")"));
    if (life.generation == 0 || life.state != GroupState::kAborted || life.was_closing ||
        life.excused() || scenario_.rough) {
      continue;
    }
    const absl::Status& recorded = Of(life).cause;
    if (recorded != *life.cause) {
      Violate(absl::StrCat("L4: ", Describe(life), " reports '", Describe(*life.cause),
                           "', the record says '", Describe(recorded), "'"));
    }
  }
  for (const auto& [number, era] : eras_) {
    for (const auto& [key, generation] : era.generations) {
      tally_.causes_shared += generation.reports > 1;
      if (!generation.cause.ok()) CheckBlame(key.first, key.second, generation);
    }
  }
}

}  // namespace muster::simulation

// Checker: the one record of a name (L8), and that all learn one cause, in time and the right one
// (L4).
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

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

void Checker::CheckRecordedCause(int era, const std::string& name, const GroupRecord& record,
                                 absl::Time now) {
  if (record.cause.ok()) return;
  Generation& generation = eras_[era].generations[{name, record.generation}];
  if (!generation.cause.ok()) return;
  generation.cause = record.cause;
  if (generation.incarnations.empty()) generation.incarnations = record.incarnations;
  // That rank writes it at once, perhaps after some lost races.
  for (const auto& [rank, known] : generation.loss_known) {
    if (!IsSuspicion(record.cause) || now <= known + 6 * scenario_.latency()) continue;
    Violate(absl::StrCat("L4: a suspicion was written, though a member's loss was known to rank ",
                         rank, " for ", absl::FormatDuration(now - known), ": ",
                         Describe(record.cause)));
  }
}

void Checker::OnLossKnown(const Life& life, absl::Time now) {
  const bool tells = life.state == GroupState::kConnecting || life.state == GroupState::kReady ||
                     life.state == GroupState::kDraining;
  if (tells && !Excused(life, now)) Of(life).loss_known.emplace(life.rank, now);
}

void Checker::OnSuspicion(Life& life, absl::Time now) {
  life.suspects_since = std::min(life.suspects_since, now);
}

// A suspicion is held for the window, in case its cause becomes known.
void Checker::OnWriteRecord(const Life& life, const GroupRecord& record, absl::Time now) {
  if (!IsSuspicion(record.cause) || now >= life.suspects_since + scenario_.cause_window) return;
  const std::string when = life.suspects_since == absl::InfiniteFuture()
                               ? "and none arose"
                               : absl::StrCat(absl::FormatDuration(now - life.suspects_since),
                                              " after it arose, before its cause could be known");
  Violate(absl::StrCat("L4: a suspicion is written, ", when, ": ", Describe(record.cause)));
}

void Checker::OnProcessAtFault(uint64_t incarnation, absl::Time now, absl::Time until) {
  at_fault_[incarnation].push_back({now, until});
}

// Nobody is declared dead who did nothing.
void Checker::OnSessionLost(const SessionRecord& session, absl::Time now) {
  const std::vector<Fault>& faults = at_fault_[session.incarnation];
  const bool explained = std::any_of(faults.begin(), faults.end(), [now](const Fault& fault) {
    return fault.since <= now && now <= fault.until;
  });
  if (scenario_.rough || explained) return;
  Violate(absl::StrCat("L4: ", session.WhatHappened(), ", though its process lives"));
}

void Checker::OnCause(Life& life, const absl::Status& cause, absl::Time now) {
  if (life.cause.has_value()) Violate(absl::StrCat("L5: a second cause (", Describe(life), ")"));
  if (cause.ok()) Violate(absl::StrCat("L4: a cause that is OK (", Describe(life), ")"));
  // The protocol's own word for a generation that others have left behind.
  if (absl::StrContains(cause.message(), "was replaced by generation") && !scenario_.rough) {
    Violate(absl::StrCat("L8: ", cause.message(), " (", Describe(life), ")"));
  }
  life.cause = cause;
  life.excused_cause = Excused(life, now);
  CheckReport(life);
}

// Exceptions of the contract: who lost the store, or failed after the agreement to close, has a
// cause of its own. Before the ranks have met they share no generation. A rank that was stopped
// longer than its bounds allow, or that the store did not answer then, reports what it knew.
void Checker::CheckReport(const Life& life) {
  if (life.generation == 0 || life.was_closing || life.excused_cause) return;
  Generation& generation = Of(life);
  ++generation.reports;
  generation.told.emplace(Describe(*life.cause), Describe(life));
  if (generation.told.size() < 2) return;
  const auto first = generation.told.begin();
  Violate(absl::StrCat("L4: generation ", life.generation, " has two causes: '", first->first,
                       "' (", first->second, ") and '", std::next(first)->first, "' (",
                       std::next(first)->second, ")"));
}

// Whom a cause blames has done something: its process was at fault while that generation was there,
// or it gave its group this very cause.
void Checker::CheckBlame(const std::string& name, int64_t number, const Generation& generation) {
  GroupRecord record;
  record.cause = generation.cause;
  const std::optional<int> rank = record.RankAtFault();
  if (!rank.has_value()) return;
  const auto given = generation.given.find(*rank);
  if (given != generation.given.end() && given->second.count(Describe(record.cause)) != 0) return;
  if (const auto index = static_cast<size_t>(*rank); index < generation.incarnations.size()) {
    for (const Fault& fault : at_fault_[generation.incarnations[index]]) {
      if (fault.until >= generation.met) return;
    }
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
    Of(life).given[life.rank].insert(life.given.begin(), life.given.end());
    if (life.dead) continue;
    if (!IsTerminal(life.state)) Violate(absl::StrCat("L1: it never ended (", Describe(life), ")"));
    if (life.generation == 0 || life.state != GroupState::kAborted || life.was_closing ||
        life.excused_cause) {
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

// Checker: nobody goes on for longer than the detection bounds as if a rank that is gone, or has
// failed, were there (L4).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "muster/core/lifecycle/simulation/checker.h"
#include "muster/core/lifecycle/simulation/journal.h"
#include "muster/core/store/heartbeat.h"

namespace muster::simulation {

// The server counts whole beats, and one may have been under way.
absl::Duration Checker::SilenceBound() const {
  const absl::Duration timeout = scenario_.heartbeat_timeout;
  return timeout + 3 * timeout / store_internal::kBeatsPerTimeout + scenario_.latency();
}

void Checker::OnStoreLate(absl::Time now, absl::Time until) {
  // Failures of that time are told until then.
  store_late_until_ =
      until + scenario_.cause_window + scenario_.close_timeout + 2 * scenario_.latency();
  const absl::Duration late = store_late_until_ - now;
  for (auto& [incarnation, by] : gone_) by += late;
  for (auto& [number, era] : eras_) {
    for (auto& [rank, end] : era.ends) end.known_by += late;
    for (auto& [meeting, ranks] : era.known_by) {
      for (auto& [rank, by] : ranks) by += late;
    }
  }
}

// --- processes

void Checker::OnProcessGone(const Gone& gone, absl::Time now) {
  const absl::Time by = std::max(now, store_late_until_) + gone.within + NewsBound();
  absl::Time& known_by = gone_.emplace(gone.incarnation, by).first->second;
  known_by = std::min(known_by, by);
  if (gone.ends_meetings) eras_[gone.era].ends[gone.rank] = {now, by};
}

void Checker::OnProcessBack(const Gone& gone, absl::Time now) {
  const auto known = gone_.find(gone.incarnation);
  if (known == gone_.end() || known->second < now) return;
  gone_.erase(known);
  eras_[gone.era].ends.erase(gone.rank);
}

void Checker::CheckMeeting(const Life& life, absl::Time now) {
  if (life.state != GroupState::kRendezvous || Excused(life, now)) return;
  for (const auto& [rank, end] : eras_[life.era].ends) {
    const absl::Time by = std::max(end.known_by, life.awake + NewsBound());
    if (rank == life.rank || life.started.time >= end.time || now <= by) continue;
    Violate(absl::StrCat("L4: it still waits for rank ", rank, ", ", absl::FormatDuration(now - by),
                         " after it should know that nobody comes (", Describe(life), ")"));
  }
}

// --- failures

void Checker::OnMet(Life& life, Revision meeting, absl::Time now) {
  life.meeting = meeting;
  if (life.generation != 0) {
    Generation& generation = Of(life);
    generation.met = std::min(generation.met, now);
  }
  if (life.state == GroupState::kAborting || IsTerminal(life.state)) OnFailed(life, now);
}

// It writes its cause, perhaps after the window of a suspicion and some lost races.
void Checker::OnFailed(const Life& life, absl::Time now) {
  if (life.meeting == 0 || life.lost_store) return;
  const absl::Time begin = std::max({now, life.excused_until, store_late_until_});
  eras_[life.era].known_by[life.meeting].emplace(life.rank,
                                                 begin + scenario_.cause_window + 2 * NewsBound());
}

void Checker::OnMute(const Life& life) {
  Generation& generation = Of(life);
  generation.loss_known.erase(life.rank);
  auto& known_by = eras_[life.era].known_by;
  if (const auto found = known_by.find(life.meeting);
      found != known_by.end() && generation.cause.ok()) {
    found->second.erase(life.rank);  // its peers hear of its process
  }
}

void Checker::OnStopped(const Life& life) { PostponeTo(life, absl::InfiniteFuture()); }

void Checker::OnResumed(Life& life, absl::Duration stop, absl::Time now) {
  life.stopped += stop;
  life.awake = now;
  PostponeTo(life, now + scenario_.cause_window + 2 * NewsBound());
  if (stop > scenario_.harmless_stop()) {
    life.excused_until = now + scenario_.cause_window + scenario_.close_timeout;
  }
}

void Checker::PostponeTo(const Life& life, absl::Time by) {
  if (!Of(life).cause.ok()) return;
  auto& known_by = eras_[life.era].known_by;
  const auto found = known_by.find(life.meeting);
  if (found == known_by.end()) return;
  if (const auto own = found->second.find(life.rank); own != found->second.end()) own->second = by;
}

void Checker::OnClockLeap(Life& life, absl::Duration by, absl::Time now) {
  life.suspects_since -= by;
  life.excused_until = std::max(life.excused_until, now + 2 * scenario_.latency());
  OnMute(life);
}

void Checker::CheckKnown(const Life& life, absl::Time now) {
  if (life.state != GroupState::kConnecting && life.state != GroupState::kReady &&
      life.state != GroupState::kDraining) {
    return;
  }
  if (Excused(life, now)) return;
  const auto check = [&](int rank, absl::Time by) {
    by = std::max(by, life.awake + NewsBound());
    if (rank == life.rank || now <= by) return;
    Violate(absl::StrCat("L4: ", absl::FormatDuration(now - by), " after it should know that rank ",
                         rank, " is gone (", Describe(life), ")"));
  };
  for (size_t rank = 0; rank < life.members.size() && !gone_.empty(); ++rank) {
    const auto gone = gone_.find(life.members[rank]);
    if (gone != gone_.end()) check(static_cast<int>(rank), gone->second);
  }
  const auto& known_by = eras_[life.era].known_by;
  const auto found = known_by.find(life.meeting);
  if (found == known_by.end()) return;
  for (const auto& [rank, by] : found->second) check(rank, by);
}

}  // namespace muster::simulation

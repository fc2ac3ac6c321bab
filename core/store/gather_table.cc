#include "muster/core/store/gather_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "muster/core/platform/describe_ranks.h"
#include "muster/core/store/gather_error.h"

namespace muster::store_internal {
namespace {

std::string WaitsFor(absl::Span<const int> members, int size) {
  if (members.empty()) return absl::StrCat(size, " ranks");
  std::vector<int> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  return DescribeRanks(sorted);
}

}  // namespace

absl::Status GatherTable::CheckLimits(absl::string_view key, const Contribution& contribution,
                                      const Round* round) const {
  const size_t value = contribution.value.size();
  const size_t of_round = (round == nullptr ? 0 : round->bytes) + value;
  const auto found = waiting_of_.find(contribution.waiter.session);
  const Waiting waiting = found == waiting_of_.end() ? Waiting() : found->second;
  std::string what;
  if (of_round > limits_.round_bytes) {
    what = absl::StrCat("the values of ", contribution.size, " ranks together would be ", of_round,
                        " bytes or more, the limit is ", limits_.round_bytes,
                        ": larger data goes through a group");
  } else if (waiting.bytes + value > limits_.bytes_per_session) {
    what = absl::StrCat("the values of the gathers that this session waits for would be ",
                        waiting.bytes + value, " bytes, its limit is ", limits_.bytes_per_session,
                        ": gather less at a time");
  } else if (bytes_ + value > limits_.bytes) {
    what = absl::StrCat("the values of all gathers that wait would be ", bytes_ + value,
                        " bytes, the limit is ", limits_.bytes, ": gather less at a time");
  } else if (round == nullptr && rounds_.size() >= limits_.rounds) {
    what = absl::StrCat(rounds_.size(),
                        " gathers wait already, which is the limit: wait for some of them");
  } else if (waiting.contributions >= limits_.per_session) {
    what = absl::StrCat("this session waits for ", waiting.contributions,
                        " gathers already, which is its limit: wait for some of them");
  } else {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("gather \"", key, "\": ", what));
}

absl::Status GatherTable::Join(absl::string_view key, Contribution contribution,
                               absl::FunctionRef<Revision()> next_revision, Answer answer) {
  const int rank = contribution.rank;
  const int size = contribution.size;
  auto found = rounds_.find(key);
  if (found != rounds_.end()) {
    const Round& round = found->second;
    const auto same = round.contributions.find(rank);
    if (same != round.contributions.end()) {
      return absl::AlreadyExistsError(absl::StrCat(
          "gather \"", key, "\": duplicate rank ", round.InJob(rank), ": ", same->second.who,
          " and ", contribution.who, ": each rank contributes once a round"));
    }
    if (round.size != size || round.members != contribution.members) {
      const Contribution& other = round.contributions.begin()->second;
      const int in_job = contribution.members.empty() ? rank : contribution.members[rank];
      const absl::Status status = absl::InvalidArgumentError(
          absl::StrCat("gather \"", key, "\": rank ", round.InJob(other.rank), " (", other.who,
                       ") waits for ", WaitsFor(round.members, round.size), ", rank ", in_job, " (",
                       contribution.who, ") for ", WaitsFor(contribution.members, size)));
      Fail(found, status, answer);
      return status;
    }
  }
  absl::Status within =
      CheckLimits(key, contribution, found == rounds_.end() ? nullptr : &found->second);
  if (!within.ok()) return within;
  if (found == rounds_.end()) {
    found = rounds_.emplace(std::string(key), Round()).first;
    found->second.size = size;
    found->second.members = contribution.members;
  }
  Round& round = found->second;
  round.bytes += contribution.value.size();
  bytes_ += contribution.value.size();
  Waiting& waiting = waiting_of_[contribution.waiter.session];
  ++waiting.contributions;
  waiting.bytes += contribution.value.size();
  const absl::Time deadline = std::min(round.deadline, contribution.deadline);
  const Contribution& given =
      round.contributions.emplace(rank, std::move(contribution)).first->second;
  SetDeadline(found, deadline);
  if (!given.waits_in.empty()) stuck_[round.InJob(rank)].emplace_back(found, &given);
  if (round.contributions.size() < static_cast<size_t>(size)) {
    if (!given.waits_in.empty() && !CycleOf(round.InJob(rank)).empty()) {
      look_for_cycles_at_ = std::min(look_for_cycles_at_, given.came + Store::kCycleGrace);
    }
    return absl::OkStatus();
  }

  Round complete = Take(found);
  const auto result = std::make_shared<GatherResult>();
  result->revision = next_revision();
  result->values.reserve(complete.contributions.size());
  for (auto& [ignored, member] : complete.contributions) {
    result->values.push_back(std::move(member.value));
  }
  for (const auto& [ignored, member] : complete.contributions) {
    answer(member.waiter, absl::OkStatus(), result);
  }
  return absl::OkStatus();
}

void GatherTable::FailRoundsOf(Session session, absl::FunctionRef<absl::Status(int rank)> cause,
                               Answer answer) {
  for (auto it = rounds_.begin(); it != rounds_.end();) {
    const auto next = std::next(it);
    for (const auto& [rank, given] : it->second.contributions) {
      if (given.waiter.session != session) continue;
      Fail(it, cause(it->second.InJob(rank)), answer);
      break;
    }
    it = next;
  }
}

void GatherTable::Withdraw(Session session, absl::string_view key, int rank,
                           absl::string_view reason, Answer answer) {
  const auto round = rounds_.find(key);
  if (round == rounds_.end()) return;
  const auto given = round->second.contributions.find(rank);
  if (given == round->second.contributions.end()) return;
  if (given->second.waiter.session != session) return;
  Fail(round,
       absl::AbortedError(absl::StrCat("rank ", round->second.InJob(rank), " withdrew: ", reason)),
       answer);
}

void GatherTable::Expire(absl::Time now, Answer answer) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto round = rounds_.find(deadlines_.begin()->second);
    const Round& late = round->second;
    const std::string of =
        late.members.empty() ? absl::StrCat(late.size) : WaitsFor(late.members, late.size);
    Fail(round,
         absl::DeadlineExceededError(absl::StrCat(DescribeRanks(Missing(late)), " of ", of,
                                                  DidNotComeToGather(round->first))),
         answer);
  }
  if (now >= look_for_cycles_at_) FailCycles(now, answer);
}

absl::Time GatherTable::NextDeadline() const {
  return deadlines_.empty() ? look_for_cycles_at_
                            : std::min(look_for_cycles_at_, deadlines_.begin()->first);
}

// --- who waits for whom

std::vector<int> GatherTable::Missing(const Round& round) {
  std::vector<int> missing;
  for (int rank = 0; rank < round.size; ++rank) {
    if (round.contributions.count(rank) == 0) missing.push_back(round.InJob(rank));
  }
  std::sort(missing.begin(), missing.end());
  return missing;
}

const std::pair<GatherTable::Rounds::iterator, const GatherTable::Contribution*>*
GatherTable::StuckIn(int rank) const {
  const auto found = stuck_.find(rank);
  return found == stuck_.end() || found->second.size() != 1 ? nullptr : &found->second[0];
}

// Each rank waits for all that are missing where it is, so one that leads back is enough. Depth
// first; what led nowhere once leads nowhere again.
std::vector<GatherTable::Wait> GatherTable::CycleOf(int rank) const {
  // All in one round, which is how it nearly always is: nobody waits elsewhere.
  if (rounds_.size() < 2) return {};
  struct Step {
    Wait wait;
    std::vector<int> for_whom;
    size_t next = 0;
  };
  std::vector<Step> path;
  std::set<int> seen;
  const auto enter = [&](int at) {
    const auto* stuck = StuckIn(at);
    if (stuck == nullptr || !seen.insert(at).second) return;
    path.push_back({{at, stuck->first, stuck->second}, Missing(stuck->first->second)});
  };
  enter(rank);
  while (!path.empty()) {
    Step& step = path.back();
    if (step.next == step.for_whom.size()) {
      path.pop_back();
      continue;
    }
    const int next = step.for_whom[step.next++];
    if (next != rank) {
      enter(next);
      continue;
    }
    std::vector<Wait> cycle;
    cycle.reserve(path.size());
    for (const Step& found : path) cycle.push_back(found.wait);
    return cycle;
  }
  return {};
}

void GatherTable::FailCycles(absl::Time now, Answer answer) {
  look_for_cycles_at_ = absl::InfiniteFuture();
  std::vector<int> ranks;
  for (const auto& [rank, ignored] : stuck_) ranks.push_back(rank);
  for (const int rank : ranks) {
    const std::vector<Wait> cycle = CycleOf(rank);
    if (cycle.empty()) continue;
    absl::Time since = absl::InfinitePast();
    std::vector<int> members;
    std::vector<std::string> waits;
    std::set<std::string> keys;
    for (size_t i = 0; i < cycle.size(); ++i) {
      since = std::max(since, cycle[i].contribution->came);
      members.push_back(cycle[i].rank);
      waits.push_back(absl::StrCat("rank ", cycle[i].rank, " in ", cycle[i].contribution->waits_in,
                                   " for rank ", cycle[(i + 1) % cycle.size()].rank));
      keys.insert(cycle[i].round->first);
    }
    if (since + Store::kCycleGrace > now) {
      look_for_cycles_at_ = std::min(look_for_cycles_at_, since + Store::kCycleGrace);
      continue;
    }
    std::sort(members.begin(), members.end());
    const absl::Status status = absl::FailedPreconditionError(
        absl::StrCat(DescribeRanks(members), " wait for each other: ", absl::StrJoin(waits, ", "),
                     "; make the same groups in the same order on every rank"));
    for (const std::string& key : keys) Fail(rounds_.find(key), status, answer);
  }
}

GatherTable::Round GatherTable::Take(Rounds::iterator round) {
  SetDeadline(round, absl::InfiniteFuture());
  for (const auto& [rank, given] : round->second.contributions) {
    if (given.waits_in.empty()) continue;
    const auto stuck = stuck_.find(round->second.InJob(rank));
    auto& in = stuck->second;
    in.erase(
        std::find_if(in.begin(), in.end(), [&](const auto& one) { return one.first == round; }));
    if (in.empty()) stuck_.erase(stuck);
  }
  Round taken = std::move(round->second);
  rounds_.erase(round);
  bytes_ -= taken.bytes;
  for (const auto& [rank, given] : taken.contributions) {
    const auto waiting = waiting_of_.find(given.waiter.session);
    waiting->second.bytes -= given.value.size();
    if (--waiting->second.contributions == 0) waiting_of_.erase(waiting);
  }
  return taken;
}

void GatherTable::Fail(Rounds::iterator round, const absl::Status& status, Answer answer) {
  const Round failed = Take(round);
  for (const auto& [rank, given] : failed.contributions) {
    answer(given.waiter, status, nullptr);
  }
}

void GatherTable::SetDeadline(Rounds::iterator round, absl::Time deadline) {
  if (round->second.deadline == deadline) return;
  if (round->second.deadline != absl::InfiniteFuture()) {
    deadlines_.erase({round->second.deadline, round->first});
  }
  round->second.deadline = deadline;
  if (deadline != absl::InfiniteFuture()) deadlines_.insert({deadline, round->first});
}

}  // namespace muster::store_internal

#include "muster/core/store/gather_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "muster/core/platform/describe_ranks.h"
#include "muster/core/store/gather_error.h"

namespace muster::store_internal {

absl::Status GatherTable::CheckLimits(absl::string_view key, const Contribution& contribution,
                                      const Round* round) const {
  const size_t value = contribution.value.size();
  const size_t of_round = (round == nullptr ? 0 : round->bytes) + value;
  const auto waiting = waiting_of_.find(contribution.waiter.session);
  std::string what;
  if (of_round > limits_.round_bytes) {
    what = absl::StrCat("the values of ", contribution.size, " ranks together would be ", of_round,
                        " bytes or more, the limit is ", limits_.round_bytes,
                        ": larger data goes through a group");
  } else if (bytes_ + value > limits_.bytes) {
    what = absl::StrCat("the values of all gathers that wait would be ", bytes_ + value,
                        " bytes, the limit is ", limits_.bytes, ": gather less at a time");
  } else if (round == nullptr && rounds_.size() >= limits_.rounds) {
    what = absl::StrCat(rounds_.size(),
                        " gathers wait already, which is the limit: wait for some of them");
  } else if (waiting != waiting_of_.end() && waiting->second >= limits_.per_session) {
    what = absl::StrCat("this session waits for ", waiting->second,
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
      return absl::AlreadyExistsError(
          absl::StrCat("gather \"", key, "\": duplicate rank ", rank, ": ", same->second.who,
                       " and ", contribution.who, ": each rank contributes once a round"));
    }
    if (round.size != size) {
      const Contribution& other = round.contributions.begin()->second;
      const absl::Status status = absl::InvalidArgumentError(
          absl::StrCat("gather \"", key, "\": rank ", other.rank, " (", other.who, ") waits for ",
                       round.size, " ranks, rank ", rank, " (", contribution.who, ") for ", size));
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
  }
  Round& round = found->second;
  round.bytes += contribution.value.size();
  bytes_ += contribution.value.size();
  ++waiting_of_[contribution.waiter.session];
  const absl::Time deadline = std::min(round.deadline, contribution.deadline);
  round.contributions.emplace(rank, std::move(contribution));
  SetDeadline(found, deadline);
  if (round.contributions.size() < static_cast<size_t>(size)) return absl::OkStatus();

  Round complete = Take(found);
  GatherResult result;
  result.revision = next_revision();
  result.values.reserve(complete.contributions.size());
  for (auto& [ignored, given] : complete.contributions) {
    result.values.push_back(std::move(given.value));
  }
  for (const auto& [ignored, given] : complete.contributions) {
    answer(given.waiter, absl::OkStatus(), result);
  }
  return absl::OkStatus();
}

void GatherTable::FailRoundsOf(Session session, absl::FunctionRef<absl::Status(int rank)> cause,
                               Answer answer) {
  for (auto it = rounds_.begin(); it != rounds_.end();) {
    const auto next = std::next(it);
    for (const auto& [rank, given] : it->second.contributions) {
      if (given.waiter.session != session) continue;
      Fail(it, cause(rank), answer);
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
  Fail(round, absl::AbortedError(absl::StrCat("rank ", rank, " withdrew: ", reason)), answer);
}

void GatherTable::Expire(absl::Time now, Answer answer) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto round = rounds_.find(deadlines_.begin()->second);
    std::vector<int> missing;
    for (int rank = 0; rank < round->second.size; ++rank) {
      if (round->second.contributions.count(rank) == 0) missing.push_back(rank);
    }
    Fail(round,
         absl::DeadlineExceededError(absl::StrCat(
             DescribeRanks(missing), " of ", round->second.size, DidNotComeToGather(round->first))),
         answer);
  }
}

absl::Time GatherTable::NextDeadline() const {
  return deadlines_.empty() ? absl::InfiniteFuture() : deadlines_.begin()->first;
}

GatherTable::Round GatherTable::Take(Rounds::iterator round) {
  SetDeadline(round, absl::InfiniteFuture());
  Round taken = std::move(round->second);
  rounds_.erase(round);
  bytes_ -= taken.bytes;
  for (const auto& [rank, given] : taken.contributions) {
    const auto waiting = waiting_of_.find(given.waiter.session);
    if (--waiting->second == 0) waiting_of_.erase(waiting);
  }
  return taken;
}

void GatherTable::Fail(Rounds::iterator round, const absl::Status& status, Answer answer) {
  const Round failed = Take(round);
  for (const auto& [rank, given] : failed.contributions) {
    answer(given.waiter, status, GatherResult());
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

#include "muster/core/launch/job_policy.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

JobPolicy::JobPolicy(std::vector<pid_t> pids, const JobLimits& limits, absl::Time start)
    : limits_(limits),
      start_(start),
      ranks_(pids.size()),
      running_(static_cast<int>(pids.size())),
      timeout_at_(start + limits.timeout) {
  for (size_t rank = 0; rank < pids.size(); ++rank) ranks_[rank].result.pid = pids[rank];
}

JobPolicy::Actions JobPolicy::RankEnded(int rank, const RankExit& exit, bool in_order,
                                        absl::Time now) {
  Actions actions;
  Rank& ended = ranks_[static_cast<size_t>(rank)];
  if (ended.ended) return actions;
  ended.ended = true;
  ended.result.exit = exit;
  ended.result.ended_after = now - start_;
  --running_;
  if (!exit.ok() || !in_order) {
    const std::string reason =
        exit.ok() ? "exited with code 0 before it was done" : exit.ToString();
    FailFirst(rank, reason);
    // The store knew only that it was gone; the exit status says why, unless we are the reason.
    if (result_.first_failed == rank && ended.result.signalled == 0) result_.first_reason = reason;
  }
  RemoveSuspect(rank);
  // Whatever the code: a rank that ends well has left the store, and this changes nothing; one that
  // is still in a group leaves its peers waiting.
  actions.push_back({JobAction::Kind::kDeclareLost, rank, 0, exit.ToString()});
  if (in_order) {
    if (!exit.ok()) stragglers_at_ = std::min(stragglers_at_, now + limits_.straggler_grace);
    return actions;
  }
  // One that ends of a forwarded signal takes no time from the others' last checkpoint; those that
  // wait for it have just been told.
  if (ended.result.signalled == 0) BeginToEnd(now);
  return actions;
}

void JobPolicy::SessionChanged(int rank, const std::optional<std::string>& lost, absl::Time now) {
  if (rank < 0 || static_cast<size_t>(rank) >= ranks_.size()) return;
  if (!lost.has_value()) {
    RemoveSuspect(rank);
  } else if (!ranks_[static_cast<size_t>(rank)].ended) {
    suspects_.push_back({rank, *lost, now + limits_.suspicion_grace});
  }
}

JobPolicy::Actions JobPolicy::Interrupted(int signal, absl::Time now) {
  Actions actions;
  if (signal == last_signal_ && now - last_signal_at_ < kSameRequest) return actions;
  last_signal_ = signal;
  last_signal_at_ = now;
  if (!stopping()) result_.interrupted_by = signal;
  if (!ending_) {
    Forward(signal, now, &actions);
  } else if (now - output_broke_at_ >= kSameRequest) {
    kill_at_ = now;
    const Actions kills = TimePassed(now);
    actions.insert(actions.end(), kills.begin(), kills.end());
  }
  return actions;
}

JobPolicy::Actions JobPolicy::OutputBroke(int error, absl::Time now) {
  Actions actions;
  if (!stopping() && error == EPIPE) result_.interrupted_by = SIGPIPE;
  if (!stopping()) result_.output_error = strerror(error);
  if (ending_) return actions;
  output_broke_at_ = now;
  Forward(error == EPIPE ? SIGPIPE : SIGTERM, now, &actions);
  return actions;
}

JobPolicy::Actions JobPolicy::TimePassed(absl::Time now) {
  Actions actions;
  if (!suspects_.empty() && now >= suspects_.front().until) {
    FailFirst(suspects_.front().rank, suspects_.front().reason);
    if (!forwarded_) BeginToEnd(now);
    // What follows is decided: further news changes nothing.
    for (Suspect& suspect : suspects_) suspect.until = absl::InfiniteFuture();
  }
  if (now >= timeout_at_) {
    timeout_at_ = absl::InfiniteFuture();
    // Where something else ends the job already, this only hurries it.
    if (!ending_) result_.running_at_timeout = Running();
    if (!stopping()) result_.timed_out = true;
    BeginToEnd(now);
    term_at_ = now;
  }
  if (now >= stragglers_at_) {
    stragglers_at_ = absl::InfiniteFuture();
    if (!ending_) {
      result_.stragglers = Running();
      BeginToEnd(now);
    }
  }
  if (now >= term_at_) {
    term_at_ = absl::InfiniteFuture();
    SignalRunning(SIGTERM, &actions);
  }
  if (now >= kill_at_ && give_up_at_ == absl::InfiniteFuture()) {
    term_at_ = absl::InfiniteFuture();
    give_up_at_ = now + limits_.kill_grace;
    SignalRunning(SIGKILL, &actions);
  }
  if (now >= give_up_at_) given_up_ = true;
  return actions;
}

absl::Time JobPolicy::NextDeadline() const {
  if (Done()) return absl::InfiniteFuture();
  if (give_up_at_ != absl::InfiniteFuture()) return give_up_at_;
  const absl::Time suspect_until =
      suspects_.empty() ? absl::InfiniteFuture() : suspects_.front().until;
  return std::min({suspect_until, timeout_at_, stragglers_at_, term_at_, kill_at_});
}

JobResult JobPolicy::Result(absl::Time now) const {
  JobResult result = result_;
  result.start = start_;
  result.duration = now - start_;
  for (const Rank& rank : ranks_) result.ranks.push_back(rank.result);
  return result;
}

void JobPolicy::RemoveSuspect(int rank) {
  suspects_.erase(std::remove_if(suspects_.begin(), suspects_.end(),
                                 [rank](const Suspect& suspect) { return suspect.rank == rank; }),
                  suspects_.end());
}

void JobPolicy::FailFirst(int rank, absl::string_view reason) {
  if (stopping()) return;
  const bool suspect = !suspects_.empty();
  result_.first_failed = suspect ? suspects_.front().rank : rank;
  result_.first_reason = suspect ? suspects_.front().reason : std::string(reason);
}

void JobPolicy::Forward(int signal, absl::Time now, Actions* actions) {
  ending_ = true;
  forwarded_ = true;
  SignalRunning(signal, actions);
  kill_at_ = now + limits_.interrupt_grace;
}

std::vector<int> JobPolicy::Running() const {
  std::vector<int> running;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].ended) running.push_back(static_cast<int>(rank));
  }
  return running;
}

// Never puts off an end that was set earlier.
void JobPolicy::BeginToEnd(absl::Time now) {
  ending_ = true;
  const absl::Time kill_at = now + limits_.failure_grace;
  if (kill_at >= kill_at_) return;
  kill_at_ = kill_at;
  term_at_ = std::min(term_at_, now + limits_.failure_grace * 3 / 4);
}

void JobPolicy::SignalRunning(int signal, Actions* actions) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].ended) continue;
    ranks_[rank].result.signalled = signal;
    actions->push_back({JobAction::Kind::kSignal, static_cast<int>(rank), signal, ""});
  }
}

}  // namespace muster

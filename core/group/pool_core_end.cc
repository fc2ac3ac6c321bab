// PoolCore's end: closed or aborted, by one caller, for whom all others wait.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/debugging/leak_check.h"
#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/group/pool_core.h"
#include "muster/core/lifecycle/process_end.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {

namespace {

// What leaving the store gets when the groups have used up the time for the end of their pool.
constexpr absl::Duration kTimeToLeave = absl::Seconds(1);

}  // namespace

void PoolCore::StopAcquiring() {
  if (life_ == Life::kOpen) life_ = Life::kEnding;
  ++version_;
}

std::vector<std::shared_ptr<GroupRuntime>> PoolCore::Runtimes() const {
  std::vector<std::shared_ptr<GroupRuntime>> runtimes;
  for (const auto& [name, entry] : entries_) runtimes.push_back(entry.runtime);
  return runtimes;
}

absl::Status PoolCore::AwaitEnd(absl::Duration timeout) {
  const auto ended = [this]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return life_ == Life::kEnded; };
  if (mutex_.AwaitWithTimeout(absl::Condition(&ended), timeout)) return end_result_;
  return absl::DeadlineExceededError(
      absl::StrCat("the pool of rank ", world_.rank,
                   " is being closed by another thread, which is not done after ",
                   absl::FormatDuration(timeout)));
}

absl::Status PoolCore::Close(absl::Duration timeout) {
  if (forked()) {
    return absl::FailedPreconditionError(
        "Close of a pool in a forked child: the pool belongs to the process that made it");
  }
  if (absl::Status may = CheckMayWait("Close of the pool"); !may.ok()) return may;
  const absl::Time deadline = MonotonicNow() + timeout;
  std::vector<std::shared_ptr<GroupRuntime>> runtimes;
  {
    absl::MutexLock lock(&mutex_);
    if (life_ != Life::kOpen) return AwaitEnd(timeout);
    std::vector<std::string> held;
    for (const auto& [name, entry] : entries_) {
      if (aborted_) break;  // on the control thread: nothing is held any more, or soon
      const std::vector<Holder> leases = Leases(entry.holders);
      if (!leases.empty() && !IsTerminal(entry.runtime->state())) {
        held.push_back(absl::StrCat("'", entry.runtime->id(), "' (", JoinHolders(leases), ")"));
      }
    }
    if (!held.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("Close of a pool whose groups are held: ", absl::StrJoin(held, ", "),
                       "; release these leases first, or Abort"));
    }
    StopAcquiring();
    runtimes = Runtimes();
  }
  // All at once, so that ranks may have their groups in any order. What had failed before is not
  // this close's failure: it is only waited for.
  std::vector<std::shared_ptr<GroupRuntime>> closing;
  for (const auto& runtime : runtimes) {
    const GroupState state = runtime->state();
    if (IsTerminal(state) || state == GroupState::kAborting) continue;
    runtime->BeginClose(timeout);
    closing.push_back(runtime);
  }
  // A group's own bounds may be longer than this one's, or infinite.
  for (const auto& runtime : runtimes) {
    if (!runtime->TerminalBy(deadline)) runtime->Hurry(options_.close_timeout);
  }
  absl::Status result;
  for (const auto& runtime : closing) result.Update(runtime->WaitTerminal());
  for (const auto& runtime : runtimes) runtime->WaitTerminal().IgnoreError();
  End(result, "closed", std::max(deadline, MonotonicNow() + std::min(timeout, kTimeToLeave)));
  return result;
}

absl::Status PoolCore::WeLeave(const absl::Status& cause) const {
  return absl::Status(cause.ok() ? absl::StatusCode::kAborted : cause.code(),
                      absl::StrCat("rank ", world_.rank, " left: \"",
                                   cause.ok() ? "no cause given" : cause.message(), "\""));
}

void PoolCore::Abort(const absl::Status& cause) {
  if (forked()) return;  // the child owns nothing
  std::vector<std::shared_ptr<GroupRuntime>> runtimes;
  // Then nothing is waited for: the groups end by themselves, and whoever closes the pool, or its
  // destructor, ends it.
  const bool here = executor_->RunsHere();
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    if (life_ == Life::kEnded) return;
    aborted_ = true;
    first = life_ == Life::kOpen;
    runtimes = Runtimes();
    if (here) {
      ++version_;
    } else {
      StopAcquiring();
    }
  }
  BeginAbort(cause, runtimes);
  if (here) return;
  if (!first) {  // whoever began to close this pool ends it, and soon: nothing is left to wait for
    absl::MutexLock lock(&mutex_);
    if (leaving_ != nullptr) {
      absl::MutexLock leaving_lock(&leaving_->mutex);
      leaving_->soon = true;
    }
    connection_.ServeNoLonger();
    AwaitEnd(options_.close_timeout).IgnoreError();
    return;
  }
  for (const auto& runtime : runtimes) runtime->WaitTerminal().IgnoreError();
  // The store's answer is waited for, but no peer: those of a rank that serves the store have the
  // cause, and lose the store.
  End(cause, std::string(cause.message()), MonotonicNow() + options_.close_timeout);
}

void PoolCore::BeginAbort(const absl::Status& cause,
                          const std::vector<std::shared_ptr<GroupRuntime>>& runtimes) {
  for (const auto& runtime : runtimes) {
    if (!IsTerminal(runtime->state())) runtime->BeginAbort(cause, options_.close_timeout);
  }
}

absl::Status PoolCore::WeEnd(absl::string_view why) const {
  const std::string who = absl::StrCat("rank ", world_.rank, " (host ", connection_.host, ", pid ",
                                       connection_.pid, ")");
  return absl::UnavailableError(ProcessEnd(who, why));
}

void PoolCore::BeginAbort(absl::string_view why) {
  if (forked()) return;
  std::vector<std::shared_ptr<GroupRuntime>> runtimes;
  {
    absl::MutexLock lock(&mutex_);
    if (life_ == Life::kEnded) return;
    // As on the control thread: whoever comes to wait ends the pool.
    aborted_ = true;
    ++version_;
    runtimes = Runtimes();
  }
  BeginAbort(WeEnd(why), runtimes);
}

void PoolCore::AbortBecause(absl::string_view why) { Abort(WeEnd(why)); }

absl::Duration PoolCore::AbortBound() const {
  absl::Duration cause_window;
  {
    absl::MutexLock lock(&mutex_);
    for (const std::shared_ptr<GroupRuntime>& runtime : Runtimes()) {
      cause_window = std::max(cause_window, runtime->spec().cause_window);
    }
  }
  // Its groups, then the store's answer; residue is looked for, and the control thread stops.
  return cause_window + 2 * options_.close_timeout + kTimeToLeave + ControlThread::kStopBound;
}

void PoolCore::End(const absl::Status& result, const std::string& reason, absl::Time deadline) {
  auto leaving = std::make_shared<Leaving>();
  {
    absl::MutexLock lock(&mutex_);
    leaving_ = leaving;
    leaving->soon = aborted_;
  }
  connection_.control->Post([news = news_, leaving] {
    news->Stop();
    absl::MutexLock lock(&leaving->mutex);
    leaving->silent = true;
  });
  connection_.store->Leave(reason, deadline, [leaving](absl::Status) {
    absl::MutexLock lock(&leaving->mutex);
    leaving->done = true;
  });
  {
    absl::MutexLock lock(&leaving->mutex);
    const auto done_or_soon = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(leaving->mutex) {
      return leaving->done || leaving->soon;
    };
    leaving->mutex.AwaitWithTimeout(absl::Condition(&done_or_soon), deadline - MonotonicNow());
    if (leaving->soon) {
      leaving->mutex.AwaitWithTimeout(absl::Condition(&leaving->done),
                                      std::min(options_.close_timeout, deadline - MonotonicNow()));
    }
    // Without it the control thread still uses the store: then it is stuck in a library, or in an
    // observer, and is left behind with what it uses.
    if (!leaving->mutex.AwaitWithTimeout(absl::Condition(&leaving->silent),
                                         ControlThread::kStopBound)) {
      LOG(ERROR) << "rank " << world_.rank << ": its control thread is stuck, and keeps its store";
      absl::IgnoreLeak(connection_.store.release());
    }
  }
  connection_.store.reset();
  {
    absl::MutexLock lock(&mutex_);
    if (aborted_) connection_.ServeNoLonger();
  }
  connection_.StopServing(deadline);
  connection_.control->Stop().IgnoreError();
  executor_->Detach();
  absl::MutexLock lock(&mutex_);
  end_result_ = result;
  life_ = Life::kEnded;
}

}  // namespace muster

// Decides what a launcher does when ranks end, fail, hang or are told to stop. Pure: events and the
// time in, actions out.
//
// The first failure decides. The store is told of it at once, so the other ranks learn the cause
// and end by themselves; who does not gets SIGTERM, then SIGKILL.
#ifndef MUSTER_CORE_LAUNCH_JOB_POLICY_H_
#define MUSTER_CORE_LAUNCH_JOB_POLICY_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/platform/same_request.h"

namespace muster {

struct JobLimits {
  // For the whole job; then it ends as a failure.
  absl::Duration timeout = absl::InfiniteDuration();
  // From the first failure, or from the timeout, to SIGKILL. SIGTERM comes with the last quarter of
  // it after a failure, whose cause the ranks learn and end of, and at once after the timeout.
  absl::Duration failure_grace = absl::Seconds(2);
  // From the end of a rank that failed but ended in order to the end of those that still run: they
  // may finish, but not wait for ever for what that rank does no more.
  absl::Duration straggler_grace = absl::InfiniteDuration();
  // From a signal that was forwarded to the ranks to SIGKILL: time for a last checkpoint. Only the
  // timeout and a second signal shorten it.
  absl::Duration interrupt_grace = absl::Seconds(10);
  // How long a rank that the store lost may take to end by itself before it counts as failed: the
  // store sees a connection close before the launcher sees why, and a rank that exits well may do
  // so without a goodbye.
  absl::Duration suspicion_grace = absl::Seconds(1);
  // How long to wait for a process after SIGKILL.
  absl::Duration kill_grace = absl::Seconds(5);
};

struct JobAction {
  enum class Kind {
    kSignal,       // send `signal` to `rank`
    kDeclareLost,  // tell the store that `rank` is lost, with `reason`
  };
  Kind kind = Kind::kSignal;
  int rank = 0;
  int signal = 0;
  std::string reason;
};

// Not thread-safe. Times never go back.
class JobPolicy {
 public:
  JobPolicy(std::vector<pid_t> pids, const JobLimits& limits, absl::Time start);

  using Actions = std::vector<JobAction>;

  // `rank` has ended. `in_order`: it did all that it was meant to do, so its end, failed or not, is
  // no reason to end the others. The store is told either way.
  Actions RankEnded(int rank, const RankExit& exit, bool in_order, absl::Time now);

  // The store lost `rank` (why), which may still be there, stopped or stuck: a suspicion. It
  // becomes the first failure when the rank does not end within suspicion_grace, or when another
  // one fails before. Or a session of `rank` has begun: then it is suspected no more, as a program
  // that has executed itself, or a parent that takes its crashed child's place.
  void SessionChanged(int rank, const std::optional<std::string>& lost, absl::Time now);

  // The same signal again within this time is the same request.
  static constexpr absl::Duration kSameRequest = absl::Milliseconds(kSameRequestMilliseconds);

  // The launcher was told to stop. The signal is forwarded, but when something ends the job already
  // (an earlier signal, a failure, the timeout) it kills.
  Actions Interrupted(int signal, absl::Time now);

  // The job's output cannot be written any more (errno). The ranks are told to end as by a signal:
  // SIGPIPE where the reader is gone, else SIGTERM. Nobody asked for it, so what ends already is
  // left its time, and a signal that comes with it (the end of a pipeline or of a terminal) does
  // not kill.
  Actions OutputBroke(int error, absl::Time now);

  // To be called when NextDeadline() has come.
  Actions TimePassed(absl::Time now);
  absl::Time NextDeadline() const;

  // Every rank has ended, or nothing more can be done.
  bool Done() const { return running_ == 0 || given_up_; }

  // The first failure, interrupt or timeout has been.
  bool Failed() const { return stopping(); }

  // Once Done(): the result, but for what only the launcher sees (`left`, `failed_groups`).
  JobResult Result(absl::Time now) const;

 private:
  struct Rank {
    RankResult result;
    bool ended = false;
  };

  // A rank that the store lost and that has not ended yet.
  struct Suspect {
    int rank;
    std::string reason;
    absl::Time until;
  };

  std::vector<int> Running() const;
  void BeginToEnd(absl::Time now);
  void Forward(int signal, absl::Time now, Actions* actions);
  // The rank's failure, or that of the first rank that the store lost before it.
  void FailFirst(int rank, absl::string_view reason);
  void RemoveSuspect(int rank);
  void SignalRunning(int signal, Actions* actions);
  bool stopping() const { return !result_.ok(); }

  const JobLimits limits_;
  const absl::Time start_;
  std::vector<Rank> ranks_;
  int running_;
  std::vector<Suspect> suspects_;  // in the order of the news
  bool ending_ = false;            // a kill is due, or a signal was forwarded
  bool forwarded_ = false;         // a signal was, to ranks that nothing else was ending
  bool given_up_ = false;
  int last_signal_ = 0;  // that the launcher was told to stop with
  absl::Time last_signal_at_ = absl::InfinitePast();
  absl::Time output_broke_at_ = absl::InfinitePast();
  JobResult result_;
  absl::Time timeout_at_;
  absl::Time stragglers_at_ = absl::InfiniteFuture();
  absl::Time term_at_ = absl::InfiniteFuture();
  absl::Time kill_at_ = absl::InfiniteFuture();
  absl::Time give_up_at_ = absl::InfiniteFuture();
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_JOB_POLICY_H_

// What became of a job: who failed first, what the others did, what was left behind, and the lines
// that say so.
#ifndef MUSTER_CORE_LAUNCH_JOB_RESULT_H_
#define MUSTER_CORE_LAUNCH_JOB_RESULT_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "muster/core/launch/rank_exit.h"

namespace muster {

struct RankResult {
  pid_t pid = -1;
  // Empty: still there after SIGKILL (stuck in the kernel).
  std::optional<RankExit> exit;
  absl::Duration ended_after;  // since JobResult::start
  // The last signal that the launcher sent before the rank ended, 0 for none: the end is then the
  // launcher's doing.
  int signalled = 0;
};

// A process that a rank started and that outlived all ranks. The launcher ended it.
struct LeftProcess {
  pid_t pid = -1;
  std::optional<int> rank;  // whose it was, where that can be told
  std::string command;      // "sleep 100"
  bool ended = true;        // false: still there after SIGKILL

  // "left behind, ended now: process 812 (sleep 100) of rank 1"
  std::string ToString() const;
};

// What a group had recorded as the cause of its failure when the first rank ended.
struct FailedGroup {
  std::string name;
  std::string cause;  // one line: "rank 1: label 17 out of range"
  // Whose fault that is, where the cause names one and the job had no other group to go on with.
  std::optional<int> rank;
  // That fault is that the rank ended under the group: whoever does has not ended well, though its
  // exit code be 0.
  bool by_its_end = false;

  // `the group "train" had failed before: rank 1: label 17 out of range`
  std::string ToString() const;
};

struct JobResult {
  std::vector<RankResult> ranks;

  // The first failure, the cause of all that followed: a rank, and "killed by signal 9", "exited
  // with code 3" or, for one that its store lost while it was still there, "no heartbeat for 10 s".
  std::optional<int> first_failed;
  std::string first_reason;

  // The signal that the launcher was asked to stop with, before any failure.
  int interrupted_by = 0;
  // Why the job's output could not be written any more, before any failure: "No space left on
  // device". A reader that is gone is an interrupt by SIGPIPE instead, as for any program in a
  // pipe.
  std::string output_error;
  bool timed_out = false;  // before any failure
  // Where the timeout is what ended the job, though a rank had failed in order before. None, with
  // timed_out: all had ended, but nobody read what they had written.
  std::vector<int> running_at_timeout;
  // That still ran JobLimits::straggler_grace after a failed rank had ended in order, and were
  // ended for it.
  std::vector<int> stragglers;

  // What groups had recorded when the first rank failed, the earliest first: a rank that fails in
  // its own code tells its peers, and one of these may be the first to end.
  std::vector<FailedGroup> failed_groups;

  // What they had recorded once all ranks had ended: others may have failed of whom it blames.
  std::vector<FailedGroup> failed_groups_at_end;

  // How its store was served, where that is worth a line: see LaunchedStore::Notice.
  std::string store_notice;
  // What its store did not let in: see LaunchedStore::Refused.
  std::string store_refused;

  std::vector<LeftProcess> left;
  // When all ranks had been started, by MonotonicNow(). The store and the start-up came before.
  absl::Time start;
  absl::Duration duration;  // since then

  bool ok() const {
    return !first_failed.has_value() && interrupted_by == 0 && !timed_out && output_error.empty();
  }

  // Makes the rank that `failed_groups` blames the first that failed, unless it ended well, which
  // nobody does who ends under a living group. Only an exit of a rank's own can be a consequence: a
  // crash, or the loss of a silent rank, the launcher saw itself. Once, when all else is known.
  void BlameByRecord();

  // 0, 128 + signal, 124 for a timeout, 1 for an output that could not be written, or what the
  // first failing rank ended with.
  int ExitCode() const;

  // A group's record blames `rank`: what came after may follow from it.
  bool OnRecord(int rank) const;

  // For the end of the output: who failed first and why, what followed (as a consequence where a
  // record or our own signal says so), what was left behind, and what is to be said of the store.
  // One line each, without a prefix; none for a job that went well.
  std::vector<std::string> Report() const;

 private:
  // All ranks, and more than one, ended by themselves as the first did, and no record says why.
  bool AllFailedAlike() const;
};

// "1.3 s", for messages.
std::string Seconds(absl::Duration duration);

// "SIGTERM"; "signal 40" for one without a name here.
std::string SignalName(int signal);

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_JOB_RESULT_H_

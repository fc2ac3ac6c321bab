// Runs a job of N ranks on this host: starts them, serves their store, passes on their output and
// signals, finds out who failed first, and leaves nothing behind.
//
//   JobOptions job;
//   job.command = {"./train", "--epochs=3"};
//   job.ranks = 4;
//   job.environment = Environment::OfProcess();
//   job.store = ServeUnixStore();                                    // tcp_launched_store.h
//   PrefixedOutput output(job.ranks, STDOUT_FILENO, STDERR_FILENO);  // output_sink.h
//   job.output = &output;
//   absl::StatusOr<JobResult> result = RunJob(job);
//   if (!result.ok()) return ExitCodeOfLaunchError(result.status());  // program.h; no rank runs
//   for (const std::string& line : result->Report()) std::cerr << "[muster] " << line << "\n";
//   return result->ExitCode();
//
// It is a program's main: while it runs it takes the process's signals and reaps all its children,
// so nothing else of the process may count on either, and no other thread may have been started. A
// child that was there before is reaped when it ends, but not ended. A rank that dies tells the
// store why; the others have JobLimits::failure_grace to end by themselves. SIGTERM, SIGINT,
// SIGHUP, SIGQUIT, SIGALRM and SIGXCPU go to the ranks and begin the job's end, or kill the ranks
// when it has begun; SIGUSR1 and SIGUSR2 only go to the ranks. One of these that was ignored before
// (nohup) stays ignored.
#ifndef MUSTER_CORE_LAUNCH_LAUNCHER_H_
#define MUSTER_CORE_LAUNCH_LAUNCHER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/launch/job_policy.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launched_store.h"
#include "muster/core/launch/output_sink.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/platform/environment.h"

namespace muster {

struct JobOptions {
  static constexpr int kMaxRanks = 4096;

  // The program, found as a shell does, and its arguments.
  std::vector<std::string> command;
  int ranks = 1;

  // What the ranks inherit. Each gets besides: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, the
  // same four with MUSTER_ before them, with a store MUSTER_STORE and MUSTER_TOKEN_FILE, and with
  // an output that is a terminal MUSTER_TERMINAL.
  Environment environment{{}};
  // More variables for one rank.
  std::function<std::map<std::string, std::string>(int rank)> rank_variables;

  JobLimits limits;
  // How long what ranks started may outlive the last of them before it counts as left behind.
  absl::Duration left_grace = absl::Milliseconds(500);

  // Whether a rank that ended so did all that it was meant to do; its end then does not end the
  // others. By default: whether it exited with code 0.
  std::function<bool(int rank, const RankExit&)> in_order;

  OutputSink* output = nullptr;  // null: to nowhere
  LaunchedStoreFactory store;    // none: the ranks get no store
  std::string temporary_folder;  // "": TMPDIR of `environment`, else /tmp
};

// Blocks until every rank and all that they started has ended. Errors mean that no rank is running:
// InvalidArgument (an option, with its value), NotFound and PermissionDenied (the program: see
// ExitCodeOfLaunchError), ResourceExhausted and Unavailable (what the system did not give).
absl::StatusOr<JobResult> RunJob(const JobOptions& options);

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_LAUNCHER_H_

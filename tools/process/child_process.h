// Starts another program and waits for it, within a bound.
#ifndef MUSTER_TOOLS_PROCESS_CHILD_PROCESS_H_
#define MUSTER_TOOLS_PROCESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/platform/environment.h"

namespace muster {

// The files that its two streams go to, made anew. Empty: our stderr.
struct ProcessOutput {
  std::string out;
  std::string errors;
};

// Found in PATH of `environment` as a shell does. Its input is empty. Errors name the program. From
// any thread.
absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& command,
                                   const Environment& environment,
                                   const ProcessOutput& output = {});

// How it ended, or nullopt when it has not by `deadline` (of MonotonicNow). Reaps it.
std::optional<RankExit> WaitForProcess(pid_t pid, absl::Time deadline);

// SIGKILL, and the end of it.
void KillProcess(pid_t pid);

// All of these. DeadlineExceeded, and it is killed, when it has not ended by `deadline`.
absl::StatusOr<RankExit> RunProcess(const std::vector<std::string>& command,
                                    const Environment& environment, absl::Time deadline,
                                    const ProcessOutput& output = {});

}  // namespace muster

#endif  // MUSTER_TOOLS_PROCESS_CHILD_PROCESS_H_

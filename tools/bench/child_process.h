// Starts another program and waits for it, within a bound.
#ifndef MUSTER_TOOLS_BENCH_CHILD_PROCESS_H_
#define MUSTER_TOOLS_BENCH_CHILD_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace bench {

// Found in PATH of `environment` as a shell does. Its input is empty, its output goes to our
// stderr, or nowhere when it is `quiet`. Errors name the program. From any thread.
absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& command,
                                   const Environment& environment, bool quiet = false);

// How it ended, or nullopt when it has not by `deadline` (of MonotonicNow). Reaps it.
std::optional<RankExit> WaitForProcess(pid_t pid, absl::Time deadline);

// SIGKILL, and the end of it.
void KillProcess(pid_t pid);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_CHILD_PROCESS_H_

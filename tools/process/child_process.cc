#include "muster/tools/process/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "muster/core/launch/program.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& command,
                                   const Environment& environment, const ProcessOutput& output) {
  const absl::StatusOr<std::string> program =
      FindProgram(command[0], environment.Get("PATH").value_or("/usr/bin:/bin"));
  if (!program.ok()) return program.status();
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment.variables()) {
    variables.push_back(absl::StrCat(name, "=", value));
  }

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  for (const auto& [fd, path] :
       {std::pair(STDOUT_FILENO, &output.out), std::pair(STDERR_FILENO, &output.errors)}) {
    if (path->empty()) continue;
    posix_spawn_file_actions_addopen(&files, fd, path->c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program->c_str(), &files, &attributes,
                                Pointers(arguments).data(), Pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", *program));
  return pid;
}

std::optional<RankExit> WaitForProcess(pid_t pid, absl::Time deadline) {
  // pidfd_open would need a newer kernel than Muster does; what is waited for takes longer.
  constexpr absl::Duration kPause = absl::Milliseconds(2);
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid) return RankExit::FromWaitStatus(status);
    if (ended < 0 && errno != EINTR) return RankExit::Exited(255);  // not ours: gone for us
    if (MonotonicNow() >= deadline) return std::nullopt;
    absl::SleepFor(kPause);
  }
}

void KillProcess(pid_t pid) {
  kill(pid, SIGKILL);
  WaitForProcess(pid, MonotonicNow() + absl::Seconds(5));
}

absl::StatusOr<RankExit> RunProcess(const std::vector<std::string>& command,
                                    const Environment& environment, absl::Time deadline,
                                    const ProcessOutput& output) {
  const absl::StatusOr<pid_t> pid = StartProcess(command, environment, output);
  if (!pid.ok()) return pid.status();
  const std::optional<RankExit> exit = WaitForProcess(*pid, deadline);
  if (exit.has_value()) return *exit;
  KillProcess(*pid);
  return absl::DeadlineExceededError(
      absl::StrCat(command[0], " had not ended by its deadline and was killed"));
}

}  // namespace muster

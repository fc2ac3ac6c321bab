#include "muster/core/launch/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) == 0) {
    Pipe made{UniqueFd(fds[0]), UniqueFd(fds[1])};
    made.read.MoveAboveStandard();
    made.write.MoveAboveStandard();
    if (made.read.valid() && made.write.valid()) return made;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make a pipe: ", strerror(errno),
                   "; `ulimit -n` says how many descriptors there are"));
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// What the child needs between fork and exec, all of it made before: there, only async-signal-safe
// calls are allowed.
struct ChildPlan {
  pid_t launcher;
  int null;
  int output;
  int errors;
  int report;
  const sigset_t* signal_mask;
  const struct sigaction* child_action;
  const char* program;
  char* const* arguments;
  char* const* environment;
};

[[noreturn]] void RunChild(const ChildPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The launcher died between fork and prctl.
  if (getppid() != plan.launcher) _exit(127);
  bool good = dup2(plan.null, STDIN_FILENO) >= 0 && dup2(plan.output, STDOUT_FILENO) >= 0 &&
              dup2(plan.errors, STDERR_FILENO) >= 0;
  good = good && sigaction(SIGCHLD, plan.child_action, nullptr) == 0;
  // sigprocmask is this thread's here: the child has only one.
  good = good && sigprocmask(SIG_SETMASK, plan.signal_mask, nullptr) == 0;
  if (good) execve(plan.program, plan.arguments, plan.environment);
  const int error = errno;
  (void)!write(plan.report, &error, sizeof(error));
  _exit(127);
}

// The errno with which exec failed, or 0.
int ReadExecError(int fd) {
  int error = 0;
  ssize_t n;
  do {
    n = read(fd, &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  return n == sizeof(error) ? error : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankProcess>> RankProcess::Start(const Spec& spec) {
  absl::StatusOr<Pipe> output = MakePipe();
  if (!output.ok()) return output.status();
  absl::StatusOr<Pipe> errors = MakePipe();
  if (!errors.ok()) return errors.status();
  absl::StatusOr<Pipe> report = MakePipe();
  if (!report.ok()) return report.status();
  UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  null.MoveAboveStandard();
  if (!null.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot open /dev/null: ", strerror(errno)));
  }
  // Only our ends: the rank's are its own and block, as programs expect.
  fcntl(output->read.get(), F_SETFL, O_NONBLOCK);
  fcntl(errors->read.get(), F_SETFL, O_NONBLOCK);

  const std::vector<char*> arguments = Pointers(spec.arguments);
  const std::vector<char*> environment = Pointers(spec.environment);
  const ChildPlan plan = {getpid(),
                          null.get(),
                          output->write.get(),
                          errors->write.get(),
                          report->write.get(),
                          &spec.signal_mask,
                          &spec.child_action,
                          spec.program.c_str(),
                          arguments.data(),
                          environment.data()};
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make a process for rank ", spec.rank,
                                                     ": ", strerror(errno),
                                                     "; `ulimit -u` says how many there may be"));
  }
  if (pid == 0) RunChild(plan);
  // Both sides do it, so that it is done whoever comes first.
  setpgid(pid, pid);
  report->write.Reset();
  const int error = ReadExecError(report->read.get());
  if (error != 0) {
    waitpid(pid, nullptr, 0);
    std::string hint;
    if (error == ENOEXEC) {
      hint =
          ": expected a binary of this machine, or a script whose first line names its interpreter";
    }
    if (error == ENOENT) hint = " (the interpreter that it names is missing)";
    if (error == E2BIG) hint = " (its arguments and environment are too long)";
    return absl::PermissionDeniedError(
        absl::StrCat("program \"", spec.program, "\" cannot be executed: ", strerror(error), hint));
  }
  return absl::WrapUnique(
      new RankProcess(spec.rank, pid, std::move(output->read), std::move(errors->read)));
}

RankProcess::RankProcess(int rank, pid_t pid, UniqueFd output, UniqueFd errors)
    : rank_(rank), pid_(pid), output_(std::move(output)), errors_(std::move(errors)) {}

void RankProcess::Signal(int signal) const {
  kill(-pid_, signal);
  // Not twice: a program may take a second SIGTERM for impatience.
  if (getpgid(pid_) != pid_) kill(pid_, signal);
}

void RankProcess::SignalAlone(int signal) const { kill(pid_, signal); }

}  // namespace muster

#include "muster/core/launch/signal_gate.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {

absl::StatusOr<std::unique_ptr<SignalGate>> SignalGate::Create() {
  auto gate = absl::WrapUnique(new SignalGate());
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  // Of writing: write() then says so.
  sigaddset(&taken, SIGPIPE);
  sigaddset(&taken, SIGXFSZ);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGUSR1, SIGUSR2}) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&taken, signal);
  }
  gate->fd_ = UniqueFd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  gate->fd_.MoveAboveStandard();
  if (!gate->fd_.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot watch signals: ", strerror(errno)));
  }
  // Ignored, as a careless parent leaves it, children would vanish without a status.
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &by_default, &gate->child_action_before_);
  pthread_sigmask(SIG_BLOCK, &taken, &gate->mask_before_);
  return gate;
}

SignalGate::~SignalGate() {
  if (!fd_.valid()) return;
  // Those that nobody took belong to the job that is over.
  Take();
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  sigaction(SIGCHLD, &child_action_before_, nullptr);
}

std::vector<int> SignalGate::Take() {
  std::vector<int> signals;
  signalfd_siginfo info;
  while (read(fd_.get(), &info, sizeof(info)) == sizeof(info)) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

}  // namespace muster

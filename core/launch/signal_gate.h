// Turns this process's signals into something to poll, and puts everything back at its end.
#ifndef MUSTER_CORE_LAUNCH_SIGNAL_GATE_H_
#define MUSTER_CORE_LAUNCH_SIGNAL_GATE_H_

#include <signal.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {

// Takes SIGCHLD, SIGPIPE, SIGXFSZ, and SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGUSR1
// and SIGUSR2 but for those that were ignored (nohup, a shell's background job). To be made before
// the process has other threads, which inherit the mask: a signal is seen here only while every
// thread blocks it. Not thread-safe.
class SignalGate {
 public:
  static absl::StatusOr<std::unique_ptr<SignalGate>> Create();
  ~SignalGate();
  SignalGate(const SignalGate&) = delete;
  SignalGate& operator=(const SignalGate&) = delete;

  // Readable when Take() gives something.
  int fd() const { return fd_.get(); }
  // The signals that have come since, without blocking.
  std::vector<int> Take();

  // What children must start with.
  const sigset_t& mask_before() const { return mask_before_; }
  const struct sigaction& child_action_before() const { return child_action_before_; }

 private:
  SignalGate() = default;

  UniqueFd fd_;
  sigset_t mask_before_;
  struct sigaction child_action_before_ = {};
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_SIGNAL_GATE_H_

// One rank: a process of its own process group, its output in two pipes.
#ifndef MUSTER_CORE_LAUNCH_RANK_PROCESS_H_
#define MUSTER_CORE_LAUNCH_RANK_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {

// Not thread-safe; to be made by the thread that lives as long as the job, since the kernel ends
// the rank with the thread that made it.
class RankProcess {
 public:
  struct Spec {
    int rank = 0;
    std::string program;                   // a path
    std::vector<std::string> arguments;    // with argv[0]
    std::vector<std::string> environment;  // "NAME=value"
    // The signal mask and the disposition of SIGCHLD that the rank shall start with: those that
    // this process had before its launcher changed them.
    sigset_t signal_mask;
    struct sigaction child_action;
  };

  // Starts it; returns when the program runs. Its stdin is empty. It dies with this process
  // (SIGKILL). PermissionDenied when the system refuses the program's file (says why),
  // ResourceExhausted when there is no process or descriptor to be had.
  static absl::StatusOr<std::unique_ptr<RankProcess>> Start(const Spec& spec);

  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  // Non-blocking ends to read from. May be closed by who reads.
  UniqueFd& output() { return output_; }
  UniqueFd& errors() { return errors_; }

  // To the rank and what it started in its process group. To be called only while nobody has reaped
  // it: until then the number is its own.
  void Signal(int signal) const;
  // To the rank alone: for a message to it that would end what it started.
  void SignalAlone(int signal) const;

 private:
  RankProcess(int rank, pid_t pid, UniqueFd output, UniqueFd errors);

  const int rank_;
  const pid_t pid_;
  UniqueFd output_;
  UniqueFd errors_;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_RANK_PROCESS_H_

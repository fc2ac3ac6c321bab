// How a rank's process ended.
#ifndef MUSTER_CORE_LAUNCH_RANK_EXIT_H_
#define MUSTER_CORE_LAUNCH_RANK_EXIT_H_

#include <string>

namespace muster {

// A value type.
struct RankExit {
  enum class Kind { kExited, kKilled };

  Kind kind = Kind::kExited;
  int value = 0;  // the code, or the signal

  static RankExit Exited(int code) { return {Kind::kExited, code}; }
  static RankExit Killed(int signal) { return {Kind::kKilled, signal}; }
  // Of a status that waitpid gave for a process that has ended.
  static RankExit FromWaitStatus(int status);

  bool ok() const { return kind == Kind::kExited && value == 0; }
  // As a shell would say it: the code, or 128 + signal.
  int ExitCode() const { return kind == Kind::kExited ? value : 128 + value; }
  // "exited with code 3", "killed by signal 9": the words of the store's cause, the same on every
  // rank.
  std::string ToString() const;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_RANK_EXIT_H_

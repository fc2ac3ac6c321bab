// `muster run`: starts the ranks of a job on this host.
#ifndef MUSTER_TOOLS_MUSTER_RUN_COMMAND_H_
#define MUSTER_TOOLS_MUSTER_RUN_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/tools/muster/command.h"

namespace muster {

Command RunCommand();

struct RunArguments {
  int ranks = 0;
  absl::Duration timeout = absl::InfiniteDuration();
  std::vector<std::string> command;
  bool help = false;
};

// InvalidArgument naming the option, the value seen and the form expected. Options end at "--" or
// at the program; what follows the program is its own.
absl::StatusOr<RunArguments> ParseRunArguments(absl::Span<const std::string> arguments);

}  // namespace muster

#endif  // MUSTER_TOOLS_MUSTER_RUN_COMMAND_H_

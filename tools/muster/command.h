// A subcommand of `muster`: each in files of its own, listed in commands.cc.
#ifndef MUSTER_TOOLS_MUSTER_COMMAND_H_
#define MUSTER_TOOLS_MUSTER_COMMAND_H_

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "muster/core/platform/environment.h"

namespace muster {

// What a command may use of its process.
struct CommandContext {
  std::vector<std::string> arguments;  // after the command's name
  Environment environment{{}};
  std::ostream* out;     // what was asked for
  std::ostream* errors;  // all else
};

struct Command {
  static constexpr int kUsageError = 2;

  absl::string_view name;                   // "run"
  absl::string_view summary;                // one line
  absl::string_view usage;                  // all that `muster help run` prints
  std::function<int(CommandContext&)> run;  // gives the exit code
};

// In the order of the help.
absl::Span<const Command> AllCommands();

inline constexpr absl::string_view kVersion = "0.1.0";

// What main() does, without the program's name.
int RunMuster(CommandContext context);

}  // namespace muster

#endif  // MUSTER_TOOLS_MUSTER_COMMAND_H_

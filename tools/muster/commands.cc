#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/no_destructor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "muster/tools/muster/command.h"
#include "muster/tools/muster/doctor_command.h"
#include "muster/tools/muster/run_command.h"

namespace muster {
namespace {

const Command* Find(absl::string_view name) {
  for (const Command& command : AllCommands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int UnknownCommand(CommandContext& context, absl::string_view name) {
  std::string known;
  for (const Command& command : AllCommands()) absl::StrAppend(&known, command.name, ", ");
  *context.errors << "muster: unknown command \"" << absl::Utf8SafeCHexEscape(name)
                  << "\": expected one of " << known << "--version\n";
  return Command::kUsageError;
}

int Overview(std::ostream& out) {
  out << "usage: muster COMMAND [ARGUMENTS]\n\n";
  for (const Command& command : AllCommands()) {
    out << absl::StreamFormat("  %-8s %s\n", command.name, command.summary);
  }
  out << "\n  muster help COMMAND says more; muster --version\n";
  return 0;
}

int Help(CommandContext& context) {
  if (context.arguments.empty()) return Overview(*context.out);
  const Command* command = Find(context.arguments[0]);
  if (command == nullptr) return UnknownCommand(context, context.arguments[0]);
  *context.out << command->usage;
  return 0;
}

}  // namespace

absl::Span<const Command> AllCommands() {
  static const absl::NoDestructor<std::vector<Command>> commands(std::vector<Command>{
      RunCommand(),
      DoctorCommand(),
      {"help", "says how to use a command", "usage: muster help [COMMAND]\n", Help},
  });
  return *commands;
}

int RunMuster(CommandContext context) {
  if (context.arguments.empty()) {
    Overview(*context.errors);
    return Command::kUsageError;
  }
  const std::string name = std::move(context.arguments.front());
  context.arguments.erase(context.arguments.begin());
  if (name == "--version") {
    *context.out << "muster " << kVersion << "\n";
    return 0;
  }
  if (name == "--help" || name == "-h") return Overview(*context.out);
  const Command* command = Find(name);
  if (command == nullptr) return UnknownCommand(context, name);
  return command->run(context);
}

}  // namespace muster

#include "muster/tools/muster/run_command.h"

#include <unistd.h>

#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/output_queue.h"
#include "muster/core/launch/output_sink.h"
#include "muster/core/launch/program.h"
#include "muster/core/launch/tcp_launched_store.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/users_path.h"

namespace muster {
namespace {

constexpr absl::string_view kUsage =
    R"(usage: muster run -n N [--timeout DURATION] [--] PROGRAM [ARGUMENTS]

Starts N ranks of PROGRAM on this host and serves their store. Each rank gets RANK, WORLD_SIZE,
LOCAL_RANK and LOCAL_WORLD_SIZE, the same with MUSTER_ before them, MUSTER_STORE and
MUSTER_TOKEN_FILE; GroupPool::FromEnvironment() reads these. Each line of output begins with its
rank; on a terminal the ranks get MUSTER_TERMINAL=1, and a progress bar that one of them redraws by
carriage returns stays below the lines. stdin is empty.

The first rank to fail decides: the others learn the cause at once, and who has not ended 2 s later
is killed, with all that it started. SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM and SIGXCPU are
passed on and begin the end: ranks have 10 s. One that comes when the end has begun, by a signal or
by a failure, kills. SIGUSR1 and SIGUSR2 are passed on and end nothing. SIGKILL of muster itself
kills the ranks, but not what these have started.

  -n N                ranks to start, 1 to 4096
  --timeout DURATION  ends the job as a failure when it takes longer (90s, 5m, 1h30m)

Exit code: 0; the first failing rank's code, or 128 + the signal that killed it; 128 + the signal
that stopped muster; 124 after a timeout; 1 when the output cannot be written; 127 when PROGRAM is
not found, 126 when it cannot be executed, 125 when the system gave too little, 2 for wrong
arguments.
)";

// For the last lines to find a reader.
constexpr absl::Duration kReportTime = absl::Seconds(2);

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text), "\"");
}

absl::StatusOr<int> ParseRanks(absl::string_view text) {
  int ranks = 0;
  const bool digits = !text.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text[0]));
  if (digits && absl::SimpleAtoi(text, &ranks) && ranks >= 1 && ranks <= JobOptions::kMaxRanks &&
      !absl::ascii_isspace(static_cast<unsigned char>(text.back()))) {
    return ranks;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "-n is ", Quoted(text), ": expected the number of ranks, from 1 to ", JobOptions::kMaxRanks));
}

absl::Status GivenTwice(absl::string_view option) {
  return absl::InvalidArgumentError(absl::StrCat(option, " is given twice: expected one value"));
}

absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text) {
  absl::Duration timeout;
  if (absl::ParseDuration(text, &timeout) && timeout > absl::ZeroDuration()) return timeout;
  return absl::InvalidArgumentError(absl::StrCat(
      "--timeout is ", Quoted(text), ": expected a duration above 0, such as 90s, 5m or 1h30m"));
}

// Takes an option's value: after "=" in the same argument, or the next one.
class OptionReader {
 public:
  explicit OptionReader(absl::Span<const std::string> arguments) : arguments_(arguments) {}

  bool AtEnd() const { return next_ == arguments_.size(); }
  absl::string_view Peek() const { return arguments_[next_]; }
  absl::string_view Take() { return arguments_[next_++]; }
  absl::Span<const std::string> Rest() const { return arguments_.subspan(next_); }

  // Empty when the next argument is not `name`. Its value may be missing.
  struct Option {
    std::optional<absl::string_view> value;
  };
  std::optional<Option> TakeOption(absl::string_view name) {
    absl::string_view argument = Peek();
    if (!absl::ConsumePrefix(&argument, name)) return std::nullopt;
    if (absl::ConsumePrefix(&argument, "=")) {
      ++next_;
      return Option{argument};
    }
    // "-n4", as many tools take it; "--timeoutx" is another option.
    if (!argument.empty() && absl::StartsWith(name, "--")) return std::nullopt;
    ++next_;
    if (!argument.empty()) return Option{argument};
    if (AtEnd()) return Option{std::nullopt};
    return Option{Take()};
  }

 private:
  const absl::Span<const std::string> arguments_;
  size_t next_ = 0;
};

// `bazel run` starts this program in a folder of its own and says where the user is: there is what
// a relative path means that leads nowhere here. Empty where that is of no concern.
std::string InUsersFolder(const std::string& program, const Environment& environment) {
  std::string path = UsersPath(environment, program);
  const bool searched = !absl::StrContains(program, '/');
  if (path == program || searched || access(program.c_str(), F_OK) == 0) return "";
  return path;
}

int Run(CommandContext& context) {
  absl::StatusOr<RunArguments> arguments = ParseRunArguments(context.arguments);
  if (!arguments.ok()) {
    *context.errors << "muster run: " << arguments.status().message() << "\n";
    return Command::kUsageError;
  }
  if (arguments->help) {
    *context.out << kUsage;
    return 0;
  }
  JobOptions job;
  job.command = std::move(arguments->command);
  const std::string in_users_folder = InUsersFolder(job.command[0], context.environment);
  const bool found_there = !in_users_folder.empty() && access(in_users_folder.c_str(), F_OK) == 0;
  if (found_there) job.command[0] = in_users_folder;
  job.ranks = arguments->ranks;
  job.limits.timeout = arguments->timeout;
  job.environment = context.environment;
  job.store = ServeUnixStore();
  PrefixedOutput output(job.ranks, STDOUT_FILENO, STDERR_FILENO);
  job.output = &output;
  absl::StatusOr<JobResult> result = RunJob(job);
  if (!result.ok()) {
    *context.errors << "muster run: " << result.status().message();
    if (!in_users_folder.empty() && !found_there && absl::IsNotFound(result.status())) {
      *context.errors << "; nor is it " << in_users_folder << " (" << kUsersFolder << ")";
    }
    *context.errors << "\n";
    return ExitCodeOfLaunchError(result.status());
  }
  // Not by the stream: whoever did not read the job's output does not read this, and waits for us.
  OutputQueue report(STDERR_FILENO);
  for (const std::string& line : result->Report()) {
    report.Add(absl::StrCat("[muster] ", line, "\n"));
  }
  report.WriteAll(MonotonicNow() + kReportTime);
  return result->ExitCode();
}

}  // namespace

Command RunCommand() {
  return {"run", "starts ranks here; the first failure decides; nothing is left", kUsage, Run};
}

absl::StatusOr<RunArguments> ParseRunArguments(absl::Span<const std::string> arguments) {
  RunArguments parsed;
  bool timeout_given = false;
  OptionReader reader(arguments);
  while (!reader.AtEnd() && absl::StartsWith(reader.Peek(), "-")) {
    if (reader.Peek() == "--") {
      reader.Take();
      break;
    }
    if (reader.Peek() == "--help" || reader.Peek() == "-h") {
      parsed.help = true;
      return parsed;
    }
    if (const auto ranks = reader.TakeOption("-n")) {
      if (!ranks->value.has_value()) {
        return absl::InvalidArgumentError("-n has no value: expected the number of ranks after it");
      }
      if (parsed.ranks != 0) return GivenTwice("-n");
      absl::StatusOr<int> value = ParseRanks(*ranks->value);
      if (!value.ok()) return value.status();
      parsed.ranks = *value;
      continue;
    }
    if (const auto timeout = reader.TakeOption("--timeout")) {
      if (!timeout->value.has_value()) {
        return absl::InvalidArgumentError("--timeout has no value: expected a duration after it");
      }
      if (timeout_given) return GivenTwice("--timeout");
      timeout_given = true;
      absl::StatusOr<absl::Duration> value = ParseTimeout(*timeout->value);
      if (!value.ok()) return value.status();
      parsed.timeout = *value;
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("unknown option ", Quoted(reader.Peek()),
                     ": expected -n N, --timeout DURATION or the program (`muster help run`)"));
  }
  parsed.command.assign(reader.Rest().begin(), reader.Rest().end());
  if (parsed.ranks == 0) {
    return absl::InvalidArgumentError("-n is missing: expected -n N, the number of ranks to start");
  }
  if (parsed.command.empty()) {
    return absl::InvalidArgumentError(
        "the program is missing: expected it after the options, as in "
        "`muster run -n 2 -- ./program --flag`");
  }
  return parsed;
}

}  // namespace muster

#include "muster/tools/bench/options.h"

#include <algorithm>
#include <cstddef>
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
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace muster {
namespace bench {
namespace {

constexpr absl::string_view kUsage =
    R"(usage: bench [--suite=SUITE,...] [--ranks=N,...] [--repetitions=N] [--json=FILE] ...

Measures process groups of N ranks on this host: Muster's, raw gloo's and, where they are installed,
PyTorch's and OpenMPI's. All subjects are measured in one run, round by round, in a random order in
each; what it prints is the median, the 10th and the 90th percentile, and ratios of medians of
times. Figures of two runs cannot be compared, ratios within one can.

  --suite=LIST         of lifecycle and collective (all_reduce of f32); or all, the default. Parts of
                       lifecycle can be named alone: create_destroy, detection (from SIGKILL of a
                       rank to the last survivor's error) and store (what create and close cost there)
  --ranks=LIST         processes, each number 2 to 64; 2,4,8 for lifecycle and 2 for collective
  --store-ranks=LIST   of the part store: threads, each number 2 to 1024; 2,16,64,256
  --repetitions=N      rounds that count, 1 to 100000; 30
  --warmup=N           rounds before them that do not, 0 to 1000; 3 (detection: at most 1)
  --sizes=LIST         of all_reduce, each a multiple of 4 bytes up to 1GiB; 4KiB,1MiB,16MiB
  --seed=N             of the order; by default another one each time, printed
  --json=FILE          also write the results there, all or nothing
  --peers=LIST         which of torch and openmpi to look for; or none; by default both. One that is
                       not installed is left out
  --python=PROGRAM     that imports torch; python3
  --timeout=DURATION   of a part with one number of ranks (90s, 5m); 10m

Exit code: 0; 1 when a measurement failed, with the cause; 2 for wrong arguments.
)";

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text), "\"");
}

absl::Status Bad(absl::string_view flag, absl::string_view value, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " is ", Quoted(value), ": expected ", expected));
}

// Digits alone: SimpleAtoi takes signs and blanks, too.
template <class T>
bool ParseNumber(absl::string_view text, T* number) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isdigit(c);
  }) && absl::SimpleAtoi(text, number);
}

absl::Status ParseCount(absl::string_view flag, absl::string_view value, int least, int most,
                        int* count) {
  int number = 0;
  if (!ParseNumber(value, &number) || number < least || number > most) {
    return Bad(flag, value, absl::StrCat("a whole number from ", least, " to ", most));
  }
  *count = number;
  return absl::OkStatus();
}

// Numbers, each at most once.
absl::Status ParseCounts(absl::string_view flag, absl::string_view value, int least, int most,
                         std::vector<int>* counts) {
  std::vector<int> parsed;
  for (const absl::string_view text : absl::StrSplit(value, ',')) {
    int count = 0;
    absl::Status status = ParseCount(flag, text, least, most, &count);
    if (!status.ok() || std::find(parsed.begin(), parsed.end(), count) != parsed.end()) {
      return Bad(flag, value,
                 absl::StrCat("whole numbers from ", least, " to ", most,
                              ", each once, with commas between them"));
    }
    parsed.push_back(count);
  }
  *counts = std::move(parsed);
  return absl::OkStatus();
}

// Some of `known`, each at most once; `whole` stands for the list `of_whole`.
absl::Status ParseList(absl::string_view flag, absl::string_view value,
                       const std::vector<std::string>& known, absl::string_view whole,
                       const std::vector<std::string>& of_whole, std::vector<std::string>* list) {
  if (value == whole) {
    *list = of_whole;
    return absl::OkStatus();
  }
  std::vector<std::string> parsed = absl::StrSplit(value, ',');
  for (size_t i = 0; i < parsed.size(); ++i) {
    const bool is_known = std::find(known.begin(), known.end(), parsed[i]) != known.end();
    const auto before = parsed.begin() + static_cast<std::ptrdiff_t>(i);
    if (!is_known || std::find(parsed.begin(), before, parsed[i]) != before) {
      return Bad(flag, value,
                 absl::StrCat(whole, " or some of ", absl::StrJoin(known, ", "),
                              ", each once, with commas between them"));
    }
  }
  *list = std::move(parsed);
  return absl::OkStatus();
}

absl::Status ParseSizes(absl::string_view value, std::vector<int64_t>* sizes) {
  std::vector<int64_t> parsed;
  for (absl::string_view text : absl::StrSplit(value, ',')) {
    int64_t unit = 1;
    if (absl::ConsumeSuffix(&text, "KiB")) {
      unit = int64_t{1} << 10;
    } else if (absl::ConsumeSuffix(&text, "MiB")) {
      unit = int64_t{1} << 20;
    } else if (absl::ConsumeSuffix(&text, "GiB")) {
      unit = int64_t{1} << 30;
    } else {
      absl::ConsumeSuffix(&text, "B");
    }
    int64_t number = 0;
    const bool good = ParseNumber(text, &number) && number >= 1 &&
                      number <= Options::kMaxBytes / unit && number * unit % 4 == 0;
    if (!good || std::find(parsed.begin(), parsed.end(), number * unit) != parsed.end()) {
      return Bad("sizes", value,
                 "sizes such as 4KiB,1MiB,16MiB: multiples of 4 bytes up to 1GiB, each once");
    }
    parsed.push_back(number * unit);
  }
  *sizes = std::move(parsed);
  return absl::OkStatus();
}

// Suites and parts, as parts in the order in which they are always run.
absl::Status ParseSuites(absl::string_view flag, absl::string_view value,
                         std::vector<std::string>* parts) {
  const std::vector<std::string> all = Options().parts;
  std::vector<std::string> known = all;
  known.insert(known.begin(), std::string(kLifecycle));
  std::vector<std::string> named;
  absl::Status status = ParseList(flag, value, known, "all", all, &named);
  if (!status.ok()) return status;
  const auto is_named = [&named](absl::string_view name) {
    return std::find(named.begin(), named.end(), name) != named.end();
  };
  parts->clear();
  for (const std::string& part : all) {
    if (is_named(part) || is_named(SuiteOf(part))) parts->push_back(part);
  }
  return absl::OkStatus();
}

absl::Status ParseFlag(absl::string_view name, absl::string_view value, Options* options) {
  if (name == "suite") return ParseSuites(name, value, &options->parts);
  if (name == "peers") {
    return ParseList(name, value, Options().peers, "none", {}, &options->peers);
  }
  if (name == "ranks") return ParseCounts(name, value, 2, Options::kMaxRanks, &options->ranks);
  if (name == "store-ranks") {
    return ParseCounts(name, value, 2, Options::kMaxStoreRanks, &options->store_ranks);
  }
  if (name == "repetitions") return ParseCount(name, value, 1, 100000, &options->repetitions);
  if (name == "warmup") return ParseCount(name, value, 0, 1000, &options->warmup);
  if (name == "sizes") return ParseSizes(value, &options->sizes);
  if (name == "seed") {
    uint64_t seed = 0;
    if (!ParseNumber(value, &seed)) return Bad(name, value, "a whole number below 2^64");
    options->seed = seed;
    return absl::OkStatus();
  }
  if (name == "timeout") {
    if (absl::ParseDuration(value, &options->timeout) && options->timeout > absl::ZeroDuration() &&
        options->timeout < absl::InfiniteDuration()) {
      return absl::OkStatus();
    }
    return Bad(name, value, "a duration such as 90s or 5m");
  }
  if (name == "json" || name == "python") {
    if (value.empty()) {
      return Bad(name, value, name == "json" ? "the name of a file" : "the name of a program");
    }
    (name == "json" ? options->json : options->python) = std::string(value);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag ", Quoted(absl::StrCat("--", name)), ": see --help"));
}

}  // namespace

absl::StatusOr<Options> ParseOptions(absl::Span<const std::string> arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
      return options;
    }
    if (!absl::ConsumePrefix(&argument, "--") || argument.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(arguments[i]), " is no flag: expected --NAME=VALUE, see --help"));
    }
    std::pair<absl::string_view, absl::string_view> flag =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    if (argument.size() == flag.first.size()) {
      // "--ranks 4": the value is the next argument.
      Options ignored;
      absl::Status known = ParseFlag(flag.first, "", &ignored);
      if (absl::StartsWith(known.message(), "unknown")) return known;
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", flag.first, " has no value: expected --", flag.first, "=VALUE"));
      }
      flag.second = arguments[++i];
    }
    absl::Status status = ParseFlag(flag.first, flag.second, &options);
    if (!status.ok()) return status;
  }
  return options;
}

absl::string_view Usage() { return kUsage; }

absl::string_view SuiteOf(absl::string_view part) {
  return part == kCollective ? kCollective : kLifecycle;
}

std::vector<int> RanksOf(absl::string_view part, const Options& options) {
  if (part == kStore) return options.store_ranks;
  if (!options.ranks.empty()) return options.ranks;
  return part == kCollective ? std::vector<int>{2} : std::vector<int>{2, 4, 8};
}

std::string FormatBytes(int64_t bytes) {
  if (bytes % (int64_t{1} << 30) == 0) return absl::StrCat(bytes >> 30, "GiB");
  if (bytes % (int64_t{1} << 20) == 0) return absl::StrCat(bytes >> 20, "MiB");
  if (bytes % (int64_t{1} << 10) == 0) return absl::StrCat(bytes >> 10, "KiB");
  return absl::StrCat(bytes, "B");
}

}  // namespace bench
}  // namespace muster

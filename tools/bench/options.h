// The command line of bench. Pure: what it says, or what is wrong with it.
#ifndef MUSTER_TOOLS_BENCH_OPTIONS_H_
#define MUSTER_TOOLS_BENCH_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace muster {
namespace bench {

// Suites, by which results are filed.
inline constexpr absl::string_view kLifecycle = "lifecycle";
inline constexpr absl::string_view kCollective = "collective";
// What the suite lifecycle consists of; each can be run alone. The suite collective is one part.
inline constexpr absl::string_view kCreateDestroy = "create_destroy";
inline constexpr absl::string_view kDetection = "detection";
inline constexpr absl::string_view kStore = "store";

inline constexpr absl::string_view kTorch = "torch";
inline constexpr absl::string_view kOpenMpi = "openmpi";

struct Options {
  static constexpr int kMaxRanks = 64;         // processes
  static constexpr int kMaxStoreRanks = 1024;  // threads
  static constexpr int64_t kMaxBytes = int64_t{1} << 30;

  bool help = false;
  std::vector<std::string> parts = {std::string(kCreateDestroy), std::string(kDetection),
                                    std::string(kStore), std::string(kCollective)};
  std::vector<int> ranks;  // none: the part's own, see RanksOf
  std::vector<int> store_ranks = {2, 16, 64, 256};
  int repetitions = 30;
  int warmup = 3;
  std::vector<int64_t> sizes = {int64_t{4} << 10, int64_t{1} << 20, int64_t{16} << 20};  // bytes
  std::optional<uint64_t> seed;  // none: of the program's choice
  std::string json;              // "": no file
  // Those to look for on this machine.
  std::vector<std::string> peers = {std::string(kTorch), std::string(kOpenMpi)};
  std::string python = "python3";
  absl::Duration timeout = absl::Minutes(10);  // of a part with one number of ranks
};

// Without the program's name. InvalidArgument: the flag, the value seen, the form expected; one
// line.
absl::StatusOr<Options> ParseOptions(absl::Span<const std::string> arguments);

// What --help prints.
absl::string_view Usage();

// "lifecycle" or "collective".
absl::string_view SuiteOf(absl::string_view part);

// With how many ranks a part is measured, each after the other.
std::vector<int> RanksOf(absl::string_view part, const Options& options);

// "4KiB", "1MiB", "100B": the form that --sizes takes.
std::string FormatBytes(int64_t bytes);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_OPTIONS_H_

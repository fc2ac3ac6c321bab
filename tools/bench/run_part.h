// Runs a part of a suite with one number of ranks: starts them, as processes of this same program
// or, for the store, as threads, and collects what they measured.
#ifndef MUSTER_TOOLS_BENCH_RUN_PART_H_
#define MUSTER_TOOLS_BENCH_RUN_PART_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/platform/environment.h"
#include "muster/tools/bench/options.h"
#include "muster/tools/bench/samples.h"

namespace muster {
namespace bench {

struct PartJob {
  std::string part;
  int ranks = 2;
  Options options;                   // with a seed
  std::vector<std::string> command;  // of a rank: this program and its arguments
  Environment environment{{}};
  std::string folder;  // of the run; each job of ranks makes its own in it
  std::vector<std::string> peers;
};

// What a part measures on this machine, in the order of the table.
std::vector<std::string> SubjectsOf(absl::string_view part, const std::vector<std::string>& peers);

// Blocks, at most options.timeout. The error is the cause of the first failure.
absl::StatusOr<std::vector<Sample>> RunPart(const PartJob& job);

// Whether RunPart started this process; then RankMain() is its main() and gives its exit code.
bool IsRank(const Environment& environment);
int RankMain(const Options& options, const Environment& environment);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_RUN_PART_H_

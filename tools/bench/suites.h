// Runs a suite: starts its ranks, which are this same program, and collects what they measured.
#ifndef MUSTER_TOOLS_BENCH_SUITES_H_
#define MUSTER_TOOLS_BENCH_SUITES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/platform/environment.h"
#include "muster/tools/bench/options.h"
#include "muster/tools/bench/samples.h"

namespace muster {
namespace bench {

struct SuiteJob {
  std::string suite;
  Options options;                   // with a seed
  std::vector<std::string> command;  // of a rank: this program and its arguments
  Environment environment{{}};
  std::string folder;  // of the run; the suite makes its own in it
  std::vector<std::string> peers;
};

// What a suite measures on this machine, in the order of the table.
std::vector<std::string> SubjectsOf(absl::string_view suite, const std::vector<std::string>& peers);

// Blocks, at most options.timeout. The error is the cause of the first failure.
absl::StatusOr<std::vector<Sample>> RunSuite(const SuiteJob& job);

// Whether RunSuite started this process; then RankMain() is its main() and gives its exit code.
bool IsRank(const Environment& environment);
int RankMain(const Options& options, const Environment& environment);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_SUITES_H_

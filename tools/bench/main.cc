// bench: what process groups cost. README.md beside it says what is measured.
//
//   bazel run //tools/bench -- --suite=lifecycle --json=results.json

#include <unistd.h>

#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/log/initialize.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "muster/core/launch/private_folder.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/standard_descriptors.h"
#include "muster/core/platform/users_path.h"
#include "muster/tools/bench/options.h"
#include "muster/tools/bench/peers.h"
#include "muster/tools/bench/report.h"
#include "muster/tools/bench/run_part.h"
#include "muster/tools/bench/samples.h"

namespace muster {
namespace bench {
namespace {

constexpr int kFailure = 1;
constexpr int kUsageError = 2;

int Fail(int code, const absl::Status& status) {
  std::cerr << "bench: " << status.message() << std::endl;
  return code;
}

// Before minutes of measuring.
absl::Status CheckFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--json is \"", path, "\": expected a file in a folder that is there and ours to write to"));
}

absl::StatusOr<Report> Measure(const PartJob& base, const PrivateFolder& folder) {
  const Options& options = base.options;
  const absl::StatusOr<Peers> peers = PreparePeers(options, base.environment, folder);
  if (!peers.ok()) return peers.status();
  Report report({*options.seed, options.repetitions});
  for (const auto& [peer, reason] : peers->left_out) report.LeaveOut(peer, reason);
  for (const std::string& part : options.parts) {
    const std::vector<std::string> subjects = SubjectsOf(part, peers->found);
    for (int ranks : RanksOf(part, options)) {
      PartJob job = base;
      job.part = part;
      job.ranks = ranks;
      job.folder = folder.path();
      job.peers = peers->found;
      const std::string what = absl::StrCat(part, ", ", ranks, " ranks: ");
      std::cerr << "bench: " << what << absl::StrJoin(subjects, ", ") << std::endl;
      const absl::Time begin = MonotonicNow();
      const absl::StatusOr<std::vector<Sample>> samples = RunPart(job);
      if (!samples.ok()) {
        return absl::Status(samples.status().code(),
                            absl::StrCat(what, samples.status().message()));
      }
      const absl::Duration took = absl::Trunc(MonotonicNow() - begin, absl::Milliseconds(100));
      std::cerr << "bench: " << what << "done in " << absl::FormatDuration(took) << std::endl;
      absl::Status status = report.Add(std::string(SuiteOf(part)), subjects, *samples);
      if (!status.ok()) return status;
    }
  }
  return report;
}

int Main(std::vector<std::string> arguments) {
  absl::InitializeLog();
  const Environment environment = Environment::OfProcess();
  absl::StatusOr<Options> options = ParseOptions(arguments);
  if (!options.ok()) return Fail(kUsageError, options.status());
  if (IsRank(environment)) return RankMain(*options, environment);
  if (options->help) {
    std::cout << Usage();
    return 0;
  }
  const std::string json = options->json.empty() ? "" : UsersPath(environment, options->json);
  if (!json.empty()) {
    absl::Status status = CheckFolderOf(json);
    if (!status.ok()) return Fail(kUsageError, status);
  }
  if (!options->seed.has_value()) options->seed = std::random_device()();

  const std::string parent = environment.Get("TMPDIR").value_or("");
  absl::StatusOr<std::unique_ptr<PrivateFolder>> folder =
      PrivateFolder::Create(parent.empty() ? "/tmp" : parent);
  if (!folder.ok()) return Fail(kFailure, folder.status());
  PartJob base;
  base.options = *options;
  base.command = {"/proc/self/exe"};
  base.command.insert(base.command.end(), arguments.begin(), arguments.end());
  base.environment = environment;
  std::cout << "bench: " << options->repetitions << " repetitions on this host, seed "
            << *options->seed << std::endl;
  const absl::StatusOr<Report> report = Measure(base, **folder);
  if (!report.ok()) return Fail(kFailure, report.status());
  std::cout << "\n" << report->Table() << std::flush;
  if (json.empty()) return 0;
  absl::Status status = WriteFileAtomically(json, report->Json());
  return status.ok() ? 0 : Fail(kFailure, status);
}

}  // namespace
}  // namespace bench
}  // namespace muster

int main(int argc, char** argv) {
  const muster::StandardDescriptors standard;
  return muster::bench::Main(std::vector<std::string>(argv + 1, argv + argc));
}

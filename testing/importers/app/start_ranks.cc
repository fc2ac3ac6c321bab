// Starts a program as the ranks of a job, from code, as the example in launcher.h does:
//   start_ranks 2 ./print_mean 1 2
#include <unistd.h>

#include <iostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/output_sink.h"
#include "muster/core/launch/program.h"
#include "muster/core/launch/tcp_launched_store.h"
#include "muster/core/platform/environment.h"

namespace app {
namespace {

using muster::Environment;
using muster::ExitCodeOfLaunchError;
using muster::JobOptions;
using muster::JobResult;
using muster::PrefixedOutput;
using muster::RunJob;
using muster::ServeTcpStore;

int Start(int argc, char** argv) {
  JobOptions job;
  if (argc < 3 || !absl::SimpleAtoi(argv[1], &job.ranks)) {
    std::cerr << "usage: start_ranks RANKS PROGRAM [ARGUMENT...]\n";
    return 2;
  }
  job.command.assign(argv + 2, argv + argc);
  job.environment = Environment::OfProcess();
  job.store = ServeTcpStore();
  PrefixedOutput output(job.ranks, STDOUT_FILENO, STDERR_FILENO);
  job.output = &output;
  absl::StatusOr<JobResult> result = RunJob(job);
  if (!result.ok()) {
    std::cerr << "start_ranks: " << result.status() << "\n";
    return ExitCodeOfLaunchError(result.status());
  }
  for (const std::string& line : result->Report()) std::cerr << "[muster] " << line << "\n";
  return result->ExitCode();
}

}  // namespace
}  // namespace app

int main(int argc, char** argv) { return app::Start(argc, argv); }

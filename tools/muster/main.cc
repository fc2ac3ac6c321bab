// muster: starts and looks after process groups from the command line. `muster help` says how.

#include <cerrno>
#include <cstring>
#include <iostream>
#include <utility>

#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/strings/str_cat.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/standard_descriptors.h"
#include "muster/tools/muster/command.h"

int main(int argc, char** argv) {
  const muster::StandardDescriptors standard;
  // Who is refused by the job's store is told there.
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kWarning);
  absl::InitializeLog();
  muster::CommandContext context;
  context.arguments.assign(argv + 1, argv + argc);
  context.environment = muster::Environment::OfProcess();
  context.out = &std::cout;
  context.errors = &std::cerr;
  const int code = muster::RunMuster(std::move(context));
  // What was asked for and did not arrive (a full disk) is no success.
  errno = 0;
  std::cout.flush();
  if (std::cout.good()) return code;
  std::cerr << "muster: cannot write to standard output"
            << (errno == 0 ? "" : absl::StrCat(": ", strerror(errno))) << "\n";
  return code == 0 ? 1 : code;
}

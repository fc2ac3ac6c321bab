// muster: starts and looks after process groups from the command line. `muster help` says how.

#include <iostream>
#include <utility>

#include "absl/log/initialize.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/standard_descriptors.h"
#include "muster/tools/muster/command.h"

int main(int argc, char** argv) {
  const muster::StandardDescriptors standard;
  absl::InitializeLog();
  muster::CommandContext context;
  context.arguments.assign(argv + 1, argv + argc);
  context.environment = muster::Environment::OfProcess();
  context.out = &std::cout;
  context.errors = &std::cerr;
  return muster::RunMuster(std::move(context));
}

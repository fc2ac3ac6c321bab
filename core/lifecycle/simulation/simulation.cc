#include "muster/core/lifecycle/simulation/simulation.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "muster/core/lifecycle/simulation/chooser.h"
#include "muster/core/lifecycle/simulation/job.h"
#include "muster/core/lifecycle/simulation/schedule.h"
#include "muster/core/lifecycle/simulation/world.h"
#include "muster/core/platform/manual_executor.h"

namespace muster::simulation {

SimulationResult Simulate(const SimulationOptions& options) {
  RandomChooser chooser(options.seed);
  ManualExecutor executor;
  TimedSchedule schedule(&executor);
  World world(Scenario::From(chooser, options.size), options.mutation, options.journal, &chooser,
              &executor, &schedule);
  Job job(&world);
  job.Run();
  SimulationResult result;
  result.violation = world.checker.violation();
  result.schedule = absl::StrJoin(world.journal.lines(), "\n");
  result.tally = world.checker.tally();
  return result;
}

std::string Replay(const SimulationOptions& options) {
  SimulationOptions again = options;
  again.journal = true;
  const SimulationResult result = Simulate(again);
  std::string flags = absl::StrCat("--seed=", options.seed);
  if (options.size != 0) absl::StrAppend(&flags, " --size=", options.size);
  if (options.mutation != Mutation::kNone) {
    absl::StrAppend(&flags, " --mutation=", Name(options.mutation));
  }
  return absl::StrCat(result.schedule, "\nseed ", options.seed, ": ",
                      result.violation.empty() ? "every promise was kept" : result.violation,
                      "\nagain: bazel run //core/lifecycle/simulation:explore -- ", flags);
}

}  // namespace muster::simulation

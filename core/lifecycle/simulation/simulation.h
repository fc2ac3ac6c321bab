// Runs whole jobs in virtual time: ranks that make, use, close and lose groups while everything
// that can go wrong does.
//
//   SimulationResult result = Simulate({.seed = 42});
//   if (!result.violation.empty()) {
//     LOG(ERROR) << result.violation << "\n" << Simulate({.seed = 42, .journal = true}).schedule;
//   }
//
// The protocol, the store's engine and the store's client are the real ones; the network, the
// backend, the processes and their clocks are imitations whose every choice follows from the seed.
// First comes a time of trouble, then all goes well: every rank must then soon be in a group that
// lives and is closed in order, and nothing may be left in the store but the one record of a name.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_SIMULATION_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <string>

#include "muster/core/lifecycle/simulation/scenario.h"
#include "muster/core/lifecycle/simulation/tally.h"

namespace muster::simulation {

struct SimulationOptions {
  uint64_t seed = 1;
  int size = 0;  // of the job; 0: the seed says
  Mutation mutation = Mutation::kNone;
  bool journal = false;
};

struct SimulationResult {
  std::string violation;  // "" when every promise was kept
  std::string schedule;   // with `journal`: one line a step
  Tally tally;
};

// Thread-safe.
SimulationResult Simulate(const SimulationOptions& options);

// For a failing test: the schedule, what was violated, and the command that shows it again.
std::string Replay(const SimulationOptions& options);

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_SIMULATION_H_

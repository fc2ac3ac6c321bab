// Every schedule of a small job, up to a number of choices: which of the events that are possible
// comes next, and what goes wrong.
//
//   ExhaustiveResult result = ExploreAll({.size = 2, .depth = 12});
//   // result.states states, result.violation empty
//
// The simulation is the one that runs on seeds; a chooser and a schedule take the place of chance.
// A schedule is a sequence of choices. It is run from the beginning, its first choices given; each
// choice after them that could have been another one is tried the other way in a later run
// (stateless model checking). Two schedules lead to the same state when every rank, the store and
// the backend have seen the same events in the same order, so what is done in another order by
// parts that did not notice is done once.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_EXHAUSTIVE_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_EXHAUSTIVE_H_

#include <cstdint>
#include <string>

#include "muster/core/lifecycle/simulation/scenario.h"
#include "muster/core/lifecycle/simulation/tally.h"
#include "muster/core/lifecycle/state.h"

namespace muster::simulation {

struct ExhaustiveOptions {
  int size = 2;
  // Choices between events that are made both ways; after them the first one goes on.
  int depth = 10;
  // How many things go wrong in a schedule: every fault that is known, each time it could.
  int faults = 1;
  // The choices begin when a group has come to this state on some rank.
  GroupState begin = GroupState::kCreated;
  // Gives up after so many.
  uint64_t most_schedules = uint64_t{1} << 62;
  Mutation mutation = Mutation::kNone;
};

struct ExhaustiveResult {
  std::string violation;   // the first, or ""
  std::string schedule;    // that leads to it
  uint64_t schedules = 0;  // those cut short included
  uint64_t states = 0;     // different ones in which there was a choice
  bool complete = false;
  Tally tally;
};

ExhaustiveResult ExploreAll(const ExhaustiveOptions& options);

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_EXHAUSTIVE_H_

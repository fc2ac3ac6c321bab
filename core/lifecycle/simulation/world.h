// What the parts of a simulation share.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_WORLD_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_WORLD_H_

#include <cstdint>

#include "muster/core/lifecycle/simulation/checker.h"
#include "muster/core/lifecycle/simulation/fabric.h"
#include "muster/core/lifecycle/simulation/journal.h"
#include "muster/core/lifecycle/simulation/scenario.h"
#include "muster/core/lifecycle/simulation/store_link.h"
#include "muster/core/platform/manual_executor.h"

namespace muster::simulation {

struct World {
  World(uint64_t seed, Mutation mutation, bool with_journal)
      : mutation(mutation),
        random(seed),
        scenario(Scenario::From(random)),
        journal(with_journal),
        checker(scenario),
        store(scenario, mutation, &executor, &random),
        fabric(scenario, &executor, &random),
        work_seed(random.Below(1 << 20)) {}

  // Something that goes wrong with a probability of `per_mille`, in a usual run.
  bool Trouble(int per_mille) {
    return !calm && random.PerMille(per_mille * scenario.trouble / 100);
  }
  // How many collectives a generation does: the same on every rank, as in a real program.
  int64_t PlannedWork(int64_t generation) const {
    return static_cast<int64_t>((work_seed + generation * 7) % 5);
  }

  const Mutation mutation;
  ManualExecutor executor;
  Random random;
  const Scenario scenario;
  Journal journal;
  Checker checker;
  SimulatedStore store;
  Fabric fabric;
  const uint64_t work_seed;
  bool calm = false;  // nothing goes wrong any more
  bool over = false;  // no new attempts
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_WORLD_H_

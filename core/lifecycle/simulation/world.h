// What the parts of a simulation share.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_WORLD_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_WORLD_H_

#include <cstdint>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/simulation/checker.h"
#include "muster/core/lifecycle/simulation/chooser.h"
#include "muster/core/lifecycle/simulation/fabric.h"
#include "muster/core/lifecycle/simulation/journal.h"
#include "muster/core/lifecycle/simulation/scenario.h"
#include "muster/core/lifecycle/simulation/schedule.h"
#include "muster/core/lifecycle/simulation/store_link.h"
#include "muster/core/platform/manual_executor.h"

namespace muster::simulation {

struct World {
  World(const Scenario& scenario, Mutation mutation, bool with_journal, Chooser* chooser,
        ManualExecutor* executor, Schedule* schedule)
      : mutation(mutation),
        scenario(scenario),
        chooser(chooser),
        executor(executor),
        schedule(schedule),
        journal(with_journal),
        checker(scenario),
        store(this),
        fabric(this),
        work_seed(chooser->Below(1 << 20)) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Whether something goes wrong here that does so with a probability of `per_mille` in a usual
  // run. It is counted.
  // `rank`: to whom; -1 where it is the store.
  bool Strikes(Fault fault, int per_mille, int rank) {
    if (calm || !chooser->Strikes(fault, per_mille * scenario.trouble / 100)) return false;
    Count(fault, rank);
    return true;
  }
  void Count(Fault fault, int rank) {
    checker.tally().Count(fault);
    if (journal.enabled()) journal.Write(executor->Now(), rank, absl::StrCat("! ", Name(fault)));
  }
  // What a generation does is the same on every rank, as in a real program: how many collectives,
  // and whether its owners close it or only let go of it.
  int64_t PlannedWork(int64_t generation) const {
    if (scenario.work >= 0) return scenario.work;
    return static_cast<int64_t>((work_seed + static_cast<uint64_t>(generation) * 7) % 5);
  }
  bool PlansToClose(int64_t generation) const {
    if (scenario.chosen) return scenario.closes;
    return (work_seed / 5 + static_cast<uint64_t>(generation)) % 3 != 0;
  }

  const Mutation mutation;
  const Scenario scenario;
  Chooser* const chooser;
  ManualExecutor* const executor;
  Schedule* const schedule;
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

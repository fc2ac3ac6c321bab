// How often things happened in simulated runs, so that a test can tell that they did.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_TALLY_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_TALLY_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "muster/core/lifecycle/simulation/fault.h"
#include "muster/core/lifecycle/state.h"

namespace muster::simulation {

struct Tally {
  int64_t schedules = 0;
  int64_t steps = 0;
  int64_t lives = 0;  // groups, each counted once a rank
  int64_t ready = 0;
  int64_t destroyed = 0;
  int64_t aborted = 0;
  int64_t causes_shared = 0;  // generations whose cause two ranks or more reported
  int64_t dead = 0;           // with their process
  int64_t residues = 0;
  int64_t lost_store = 0;
  int64_t reused = 0;
  int64_t refused_acquires = 0;
  int64_t waiting_acquires = 0;
  int64_t refused_proposals = 0;
  int64_t accepted_proposals = 0;
  int64_t collectives = 0;
  int64_t fenced_requests = 0;  // that came from a session after its loss
  int64_t meetings_left = 0;    // that a rank gave up since a process said that it ends
  int64_t meetings_lost = 0;    // or since it was lost
  int largest = 0;              // job
  std::array<int64_t, kFaultCount> faults{};
  // In which state a group was when it was closed, aborted.
  std::array<int64_t, kGroupStateCount> closes_in{};
  std::array<int64_t, kGroupStateCount> aborts_in{};
  std::array<int64_t, kGroupStateCount> entered{};  // states, on any rank
  absl::Duration slowest_recovery;

  void Count(Fault fault) { ++faults[static_cast<size_t>(fault)]; }
  void Add(const Tally& other);
  // All of it, by name.
  std::map<std::string, int64_t> Counts() const;
  // A paragraph.
  std::string ToString() const;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_TALLY_H_

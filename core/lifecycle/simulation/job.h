// The ranks of one simulated job, from the first process to the look at what is left.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_JOB_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "muster/core/lifecycle/simulation/process.h"
#include "muster/core/lifecycle/simulation/world.h"

namespace muster::simulation {

class Job {
 public:
  explicit Job(World* world) : world_(*world), ranks_(static_cast<size_t>(world->scenario.size)) {}

  // The first violation is in the world's checker.
  void Run();

 private:
  bool Violated() const { return !world_.checker.violation().empty(); }
  void RunUntil(absl::Time limit, const std::function<bool()>& done);
  absl::Duration RecoveryBound() const;

  void Boot(int rank);
  void BootLater(int rank);
  void Watch();
  void MakeTrouble();
  void PlanFates();
  void Meet(Process& process, Fault fault);
  void Strike(Process& process);
  void StrikeStore();
  void Calm();
  void OnEnded(const Attempt& attempt);
  void Settle();
  void CheckStore();

  World& world_;
  std::vector<std::shared_ptr<Process>> ranks_;  // the latest of each
  std::vector<std::shared_ptr<Process>> all_;
  uint64_t boots_ = 0;
  // Ranks on which a calm generation was destroyed in order, and the names of which that is true
  // of all ranks.
  std::map<std::pair<std::string, int64_t>, int> clean_;
  std::map<std::string, bool> recovered_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_JOB_H_

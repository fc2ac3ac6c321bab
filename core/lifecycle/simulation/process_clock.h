// The clock and the timers of one simulated process: its zero is its own, and it may leap ahead.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_PROCESS_CLOCK_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_PROCESS_CLOCK_H_

#include <map>
#include <memory>

#include "absl/time/time.h"
#include "muster/core/platform/manual_executor.h"

namespace muster::simulation {

// Always held by shared_ptr: its timers may outlive whoever set them.
class ProcessClock final : public Executor, public std::enable_shared_from_this<ProcessClock> {
 public:
  // Shows `ahead` more than the time of `world`, which outlives it.
  ProcessClock(ManualExecutor* world, absl::Duration ahead) : world_(world), ahead_(ahead) {}

  // What is due by then is due now.
  void Jump(absl::Duration by);

  absl::Time Now() const override { return world_->Now() + ahead_; }
  void Post(Task task) override { world_->Post(std::move(task)); }
  TimerId PostAt(absl::Time when, Task task) override;
  void Cancel(TimerId timer) override;
  bool RunsHere() const override { return world_->RunsHere(); }

 private:
  struct Timer {
    absl::Time when;
    Task task;
    TimerId in_world = 0;
  };
  void Arm(TimerId id, Timer& timer);

  ManualExecutor* const world_;
  absl::Duration ahead_;
  TimerId next_id_ = 1;
  std::map<TimerId, Timer> timers_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_PROCESS_CLOCK_H_

#include "muster/core/lifecycle/simulation/process_clock.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace muster::simulation {

void ProcessClock::Arm(TimerId id, Timer& timer) {
  timer.in_world =
      world_->PostAt(std::max(timer.when - ahead_, world_->Now()), [weak = weak_from_this(), id] {
        auto self = weak.lock();
        if (self == nullptr) return;
        auto due = self->timers_.extract(id);
        if (!due.empty()) due.mapped().task();
      });
}

Executor::TimerId ProcessClock::PostAt(absl::Time when, Task task) {
  const TimerId id = next_id_++;
  if (when == absl::InfiniteFuture()) return id;
  Timer& timer = timers_[id];
  timer.when = when;
  timer.task = std::move(task);
  Arm(id, timer);
  return id;
}

void ProcessClock::Cancel(TimerId id) {
  auto cancelled = timers_.extract(id);
  if (!cancelled.empty()) world_->Cancel(cancelled.mapped().in_world);
}

void ProcessClock::Jump(absl::Duration by) {
  ahead_ += by;
  // In the order in which they are due.
  std::vector<std::pair<absl::Time, TimerId>> order;
  for (auto& [id, timer] : timers_) order.emplace_back(timer.when, id);
  std::sort(order.begin(), order.end());
  for (const auto& [when, id] : order) {
    Timer& timer = timers_.at(id);
    world_->Cancel(timer.in_world);
    Arm(id, timer);
  }
}

}  // namespace muster::simulation

// The one place that sees every transition of every group.
#ifndef MUSTER_CORE_OBSERVE_OBSERVER_H_
#define MUSTER_CORE_OBSERVE_OBSERVER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/state.h"

namespace muster {

struct TransitionEvent {
  std::string group;  // "train/1"; "train" before its ranks have met
  int rank = 0;       // of the job
  GroupState from = GroupState::kCreated;
  GroupEvent event = GroupEvent::kStart;
  GroupState to = GroupState::kCreated;
  absl::Time at;       // of the control thread's clock
  absl::Status cause;  // of a failure, once it is known

  std::string ToString() const;  // "train/1 rank 0: ready -> draining (close requested)"
};

// Called on the control thread, in the order of the transitions: must not block. Thread-safe where
// several pools share one.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnTransition(const TransitionEvent& event) = 0;
};

}  // namespace muster

#endif  // MUSTER_CORE_OBSERVE_OBSERVER_H_

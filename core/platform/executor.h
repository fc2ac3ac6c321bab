// Where the control plane's work runs.
//
// Everything that decides or that talks to the store runs as short tasks on one Executor per
// process (`ControlThread`), which never blocks. A simulator gives an Executor whose time is a
// variable, so the same code runs there too.
#ifndef MUSTER_CORE_PLATFORM_EXECUTOR_H_
#define MUSTER_CORE_PLATFORM_EXECUTOR_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace muster {

// Runs tasks one at a time, in an order that respects the order of Post. Thread-safe.
class Executor {
 public:
  using Task = absl::AnyInvocable<void()>;
  using TimerId = uint64_t;

  virtual ~Executor() = default;

  // The time that timers follow. Monotonic: a change of the system's clock does not move it.
  virtual absl::Time Now() const = 0;

  // Runs `task` as soon as the tasks before it are done. Never runs it inside the call.
  virtual void Post(Task task) = 0;

  // Runs `task` once Now() >= `when`. absl::InfiniteFuture() never runs.
  virtual TimerId PostAt(absl::Time when, Task task) = 0;

  // The task of `timer` will not start any more. Called from a task of this executor that is a
  // guarantee; from another thread the task may be running at this moment. Unknown and finished
  // timers are ignored.
  virtual void Cancel(TimerId timer) = 0;

  // Whether the caller is a task of this executor.
  virtual bool RunsHere() const = 0;
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_EXECUTOR_H_

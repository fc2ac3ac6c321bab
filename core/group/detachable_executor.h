// An executor that those who post to it may outlive.
//
//   auto executor = std::make_shared<DetachableExecutor>(control.get());
//   ... give `executor` to whatever may come back late ...
//   control->Stop();
//   executor->Detach();   // from here on what comes back late is dropped
#ifndef MUSTER_CORE_GROUP_DETACHABLE_EXECUTOR_H_
#define MUSTER_CORE_GROUP_DETACHABLE_EXECUTOR_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/platform/executor.h"

namespace muster {

// A thread that is left behind in a library (residue) may return when the pool, and the control
// thread with it, is long gone. Thread-safe.
class DetachableExecutor final : public Executor {
 public:
  // `target` lives until Detach has returned.
  explicit DetachableExecutor(Executor* target) : target_(target) {}

  // When it returns no call on the target is running and none will come: later tasks are dropped,
  // and time stands still. Idempotent.
  void Detach();

  absl::Time Now() const override;
  void Post(Task task) override;
  TimerId PostAt(absl::Time when, Task task) override;
  void Cancel(TimerId timer) override;
  bool RunsHere() const override;

 private:
  mutable absl::Mutex mutex_;
  Executor* target_ ABSL_GUARDED_BY(mutex_);
  absl::Time detached_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_DETACHABLE_EXECUTOR_H_

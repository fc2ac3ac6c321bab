// An executor whose time is a variable and whose tasks run when the test says so.
//
//   ManualExecutor executor;
//   executor.PostAt(executor.Now() + absl::Seconds(5), [] { ... });
//   executor.AdvanceTo(executor.Now() + absl::Seconds(5));    // runs it, in no time
#ifndef MUSTER_CORE_PLATFORM_MANUAL_EXECUTOR_H_
#define MUSTER_CORE_PLATFORM_MANUAL_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <thread>  // NOLINT(build/c++11): for std::thread::id
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/platform/executor.h"

namespace muster {

// Thread-safe, but only one thread at a time may run tasks. The order is a function of the calls
// alone: tasks in the order of Post, timers by time and then by the order of PostAt.
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(absl::Time start = absl::UnixEpoch()) : now_(start) {}
  ManualExecutor(const ManualExecutor&) = delete;
  ManualExecutor& operator=(const ManualExecutor&) = delete;

  // Runs the next posted task, or else the next timer that is due. False when nothing is ready.
  bool RunOne();

  // Runs until nothing is ready, what the tasks post and what is due meanwhile included; time
  // stands still. Gives the number of tasks run, at most `limit`: tasks that post each other for
  // ever end the test instead of hanging it.
  size_t RunUntilIdle(size_t limit = 1000000);

  // Moves the time to `when`, stopping at each timer on the way; runs what is ready before, between
  // and after. A time in the past only runs what is ready.
  size_t AdvanceTo(absl::Time when, size_t limit = 1000000);
  size_t AdvanceBy(absl::Duration duration) { return AdvanceTo(Now() + duration); }

  // When the next timer is due; InfiniteFuture without one.
  absl::Time NextTimer() const;

  absl::Time Now() const override;
  void Post(Task task) override;
  TimerId PostAt(absl::Time when, Task task) override;
  void Cancel(TimerId timer) override;
  bool RunsHere() const override;

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
  TimerId next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::deque<Task> ready_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<absl::Time, TimerId>, Task> timers_ ABSL_GUARDED_BY(mutex_);
  std::map<TimerId, absl::Time> due_ ABSL_GUARDED_BY(mutex_);
  std::thread::id running_on_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_MANUAL_EXECUTOR_H_

// The caller's handle on an asynchronous operation.
#ifndef MUSTER_CORE_COLLECTIVE_WORK_H_
#define MUSTER_CORE_COLLECTIVE_WORK_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace muster {

// The side of the one who does the work: finished exactly once. Thread-safe.
class WorkState {
 public:
  // The first call counts.
  void Finish(absl::Status result);
  bool finished() const;
  // DeadlineExceeded when it is not finished by `deadline`; that cancels nothing.
  absl::Status Wait(absl::Time deadline) const;

 private:
  mutable absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
};

// Move-only. The operation's buffers are the caller's again when it is terminal (`done()`, or Wait
// returned anything but this Wait's own DeadlineExceeded). The destructor waits: every operation
// ends within its group's operation_timeout, but for one that is in a backend which neither keeps
// its deadline nor is woken by Abort: its buffers stay that backend's (residue).
class [[nodiscard]] Work {
 public:
  Work() = default;  // finished, OK
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}
  Work(Work&&) = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  bool done() const;
  // The operation's result; DeadlineExceeded("... is still running") at `deadline`, which cancels
  // nothing. The deadline is of MonotonicNow(), as every deadline of the library: a change of the
  // system's clock does not move it.
  absl::Status Wait(absl::Time deadline = absl::InfiniteFuture());

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace muster

#endif  // MUSTER_CORE_COLLECTIVE_WORK_H_

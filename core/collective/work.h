// The caller's handle on an asynchronous operation.
#ifndef MUSTER_CORE_COLLECTIVE_WORK_H_
#define MUSTER_CORE_COLLECTIVE_WORK_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/platform/fork_guard.h"

namespace muster {

// The side of the one who does the work: finished exactly once. Thread-safe. In a forked child
// whoever would finish it is not there, and may have held its lock: there nothing here locks.
class WorkState {
 public:
  // The first call counts.
  void Finish(absl::Status result);
  bool finished() const;  // and in a forked child
  // DeadlineExceeded when it is not finished by `deadline`; that cancels nothing.
  // FailedPrecondition in a forked child.
  absl::Status Wait(absl::Time deadline) const;

  bool forked() const { return made_in_ != ForkGeneration(); }

 private:
  const uint64_t made_in_ = ForkGeneration();
  mutable absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
};

// Move-only. The operation's buffers are the caller's again when it is terminal (`done()`, or Wait
// returned anything but this Wait's own DeadlineExceeded). The destructor waits: every operation
// ends within its group's operation_timeout, but for one that is in a backend which neither keeps
// its deadline nor is woken by Abort: its buffers stay that backend's (residue). In a forked child
// it is over: the child has its own copy of the buffers, the result stays in the parent, and
// nothing waits.
class [[nodiscard]] Work {
 public:
  Work() = default;  // finished, OK
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}
  explicit Work(absl::Status result) : result_(std::move(result)) {}  // finished
  Work(Work&& other) noexcept;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  bool done() const;
  // The operation's result; DeadlineExceeded("... is still running") at `deadline`, which cancels
  // nothing; FailedPrecondition in a forked child. The deadline is of MonotonicNow(), as every
  // deadline of the library: a change of the system's clock does not move it.
  absl::Status Wait(absl::Time deadline = absl::InfiniteFuture());

 private:
  std::shared_ptr<WorkState> state_;
  absl::Status result_;  // of one without a state
};

}  // namespace muster

#endif  // MUSTER_CORE_COLLECTIVE_WORK_H_

// The one thread of a process on which the control plane runs: sockets, timers, protocol steps.
//
//   absl::StatusOr<std::unique_ptr<ControlThread>> control = ControlThread::Start();
//   (*control)->Post([] { ... });   // must not block: all else of the process waits for it
#ifndef MUSTER_CORE_PLATFORM_CONTROL_THREAD_H_
#define MUSTER_CORE_PLATFORM_CONTROL_THREAD_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/platform/executor.h"

namespace asio {
class io_context;
}  // namespace asio

namespace muster {

// Thread-safe. Follows MonotonicNow(). All signals are blocked on the thread, so a handler of the
// program never interrupts it. Whatever uses it must be gone, or never call it again, before it is.
class ControlThread final : public Executor {
 public:
  static constexpr absl::Duration kStopBound = absl::Seconds(5);

  // ResourceExhausted when the system gives no thread or no descriptor (it needs three: epoll,
  // eventfd, timerfd).
  static absl::StatusOr<std::unique_ptr<ControlThread>> Start();

  // Stop(kStopBound). On its own thread that is a mistake: it is logged, and the thread ends by
  // itself.
  ~ControlThread() override;
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  absl::Time Now() const override;
  void Post(Task task) override;
  TimerId PostAt(absl::Time when, Task task) override;
  void Cancel(TimerId timer) override;
  bool RunsHere() const override;

  // Runs what has been posted before, and what that posts; drops timers and pending I/O, and joins
  // the thread. What is posted later never runs. When a task does not return within `bound` the
  // thread is left behind (a residue) and the result is DeadlineExceeded; FailedPrecondition when
  // called by a task of this executor; else OK. Idempotent. In a forked child, where the thread
  // does not exist, it only lets go of it.
  absl::Status Stop(absl::Duration bound = kStopBound);

  // For sockets and the like, whose handlers then run here. Valid as long as this object.
  asio::io_context& context();

 private:
  struct Core;
  explicit ControlThread(std::shared_ptr<Core> core);

  std::shared_ptr<Core> core_;  // the thread holds it too: it may be left behind
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_CONTROL_THREAD_H_

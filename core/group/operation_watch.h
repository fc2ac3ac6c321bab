// Finds the operation that its backend keeps beyond its deadline.
//
// Backends keep deadlines themselves, and say best who did not come; this is for one that does not.
// It costs next to nothing where all is well: operations take microseconds, so none has a timer of
// its own. The group has one, for the end of the operation that set it. When it fires it looks at
// what is inside by then, and is set for that one's end; when nothing is inside, the next operation
// sets it. So the executor is woken once in a timeout and not once in an operation.
//
//   auto watch = std::make_shared<OperationWatch>(executor, absl::Milliseconds(200),
//       [](absl::string_view label, absl::Duration timeout) { ... });   // it is late
//   watch->Enter("all_reduce #41", timeout);
//   ...  // inside the backend
//   watch->Leave();
#ifndef MUSTER_CORE_GROUP_OPERATION_WATCH_H_
#define MUSTER_CORE_GROUP_OPERATION_WATCH_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/platform/executor.h"

namespace muster {

// Thread-safe. One operation is inside at a time.
class OperationWatch : public std::enable_shared_from_this<OperationWatch> {
 public:
  using Late = absl::AnyInvocable<void(absl::string_view label, absl::Duration timeout)>;

  // `late` runs on the executor, once for each operation that is still inside when its timeout and
  // `margin` have passed: the margin is for a backend that keeps its deadline, whose own words go
  // first.
  OperationWatch(std::shared_ptr<Executor> executor, absl::Duration margin, Late late);

  // `label` lives until Leave.
  void Enter(absl::string_view label, absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);
  // On the executor: it has no timer any more, and `late` is not called again.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void SetTimer(absl::Time when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnTimer() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<Executor> executor_;
  const absl::Duration margin_;
  Late late_;  // the executor's alone

  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Executor::TimerId timer_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time timer_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  // Of what is inside; InfiniteFuture for nothing, for one without a timeout, and for one whose
  // lateness has been told.
  absl::Time due_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::string_view label_ ABSL_GUARDED_BY(mutex_);
  absl::Duration timeout_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_OPERATION_WATCH_H_

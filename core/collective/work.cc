#include "muster/core/collective/work.h"

#include <utility>

#include "absl/debugging/leak_check.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {

void WorkState::Finish(absl::Status result) {
  absl::MutexLock lock(&mutex_);
  if (finished_) return;
  result_ = std::move(result);
  finished_ = true;
}

bool WorkState::finished() const {
  if (forked()) return true;
  absl::MutexLock lock(&mutex_);
  return finished_;
}

absl::Status WorkState::Wait(absl::Time deadline) const {
  if (forked()) {
    return absl::FailedPreconditionError(
        "Wait in a forked child: the operation belongs to the process that started it; make a pool "
        "after fork, or exec");
  }
  absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(&finished_), deadline - MonotonicNow())) {
    return absl::DeadlineExceededError(
        "the operation is still running; waiting for it cancels nothing: wait again, or abort the "
        "group");
  }
  return result_;
}

Work::Work(Work&& other) noexcept
    : state_(std::move(other.state_)), result_(std::exchange(other.result_, absl::OkStatus())) {}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    Work finished_first(std::move(*this));  // its destructor waits, as ours would
    state_ = std::move(other.state_);
    result_ = std::exchange(other.result_, absl::OkStatus());
  }
  return *this;
}

Work::~Work() {
  if (state_ == nullptr) return;
  if (state_->forked()) {
    // The end of a mutex that somebody held is no more allowed than locking it.
    absl::IgnoreLeak(new std::shared_ptr<WorkState>(std::move(state_)));
    return;
  }
  Wait().IgnoreError();
}

bool Work::done() const { return state_ == nullptr || state_->finished(); }

absl::Status Work::Wait(absl::Time deadline) {
  return state_ == nullptr ? result_ : state_->Wait(deadline);
}

}  // namespace muster

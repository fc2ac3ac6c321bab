#include "muster/core/group/operation_watch.h"

#include <string>
#include <utility>

namespace muster {

OperationWatch::OperationWatch(std::shared_ptr<Executor> executor, absl::Duration margin, Late late)
    : executor_(std::move(executor)), margin_(margin), late_(std::move(late)) {}

void OperationWatch::Enter(absl::string_view label, absl::Duration timeout) {
  const absl::Time due = executor_->Now() + timeout + margin_;
  if (due == absl::InfiniteFuture()) return;
  absl::MutexLock lock(&mutex_);
  if (stopped_) return;
  label_ = label;
  timeout_ = timeout;
  due_ = due;
  // The timeout is the lease's: that of the one before may be the longer one.
  if (due < timer_at_) SetTimer(due);
}

void OperationWatch::Leave() {
  absl::MutexLock lock(&mutex_);
  due_ = absl::InfiniteFuture();
}

void OperationWatch::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  executor_->Cancel(timer_);
}

void OperationWatch::SetTimer(absl::Time when) {
  executor_->Cancel(timer_);
  timer_at_ = when;
  timer_ = executor_->PostAt(when, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->OnTimer();
  });
}

void OperationWatch::OnTimer() {
  std::string label;
  absl::Duration timeout;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = executor_->Now();
    // An earlier timer that began to run while it was being cancelled.
    if (stopped_ || now < timer_at_) return;
    timer_at_ = absl::InfiniteFuture();
    if (due_ == absl::InfiniteFuture()) return;
    if (now < due_) return SetTimer(due_);
    label = std::string(label_);
    timeout = timeout_;
    due_ = absl::InfiniteFuture();
  }
  late_(label, timeout);
}

}  // namespace muster

#include "muster/core/group/detachable_executor.h"

#include <utility>

namespace muster {

// The lock is held over calls of the target, which neither block nor run a task inside. A task that
// is dropped dies with its parameter, after the lock.

void DetachableExecutor::Detach() {
  absl::MutexLock lock(&mutex_);
  if (target_ == nullptr) return;
  detached_at_ = target_->Now();
  target_ = nullptr;
}

absl::Time DetachableExecutor::Now() const {
  absl::ReaderMutexLock lock(&mutex_);
  return target_ == nullptr ? detached_at_ : target_->Now();
}

void DetachableExecutor::Post(Task task) {
  absl::ReaderMutexLock lock(&mutex_);
  if (target_ != nullptr) target_->Post(std::move(task));
}

Executor::TimerId DetachableExecutor::PostAt(absl::Time when, Task task) {
  absl::ReaderMutexLock lock(&mutex_);
  return target_ == nullptr ? 0 : target_->PostAt(when, std::move(task));
}

void DetachableExecutor::Cancel(TimerId timer) {
  absl::ReaderMutexLock lock(&mutex_);
  if (target_ != nullptr) target_->Cancel(timer);
}

bool DetachableExecutor::RunsHere() const {
  absl::ReaderMutexLock lock(&mutex_);
  return target_ != nullptr && target_->RunsHere();
}

}  // namespace muster

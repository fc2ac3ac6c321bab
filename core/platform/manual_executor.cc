#include "muster/core/platform/manual_executor.h"

#include <algorithm>
#include <utility>

namespace muster {

bool ManualExecutor::RunOne() {
  Task task;
  std::thread::id before;
  {
    absl::MutexLock lock(&mutex_);
    if (!ready_.empty()) {
      task = std::move(ready_.front());
      ready_.pop_front();
    } else if (!timers_.empty() && timers_.begin()->first.first <= now_) {
      due_.erase(timers_.begin()->first.second);
      task = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
    } else {
      return false;
    }
    before = std::exchange(running_on_, std::this_thread::get_id());
  }
  task();
  task = nullptr;  // its captures end as a part of the task
  absl::MutexLock lock(&mutex_);
  running_on_ = before;
  return true;
}

size_t ManualExecutor::RunUntilIdle(size_t limit) {
  size_t count = 0;
  while (count < limit && RunOne()) ++count;
  return count;
}

size_t ManualExecutor::AdvanceTo(absl::Time when, size_t limit) {
  size_t count = RunUntilIdle(limit);
  while (count < limit) {
    {
      absl::MutexLock lock(&mutex_);
      if (when <= now_) break;
      now_ = timers_.empty() ? when : std::min(when, timers_.begin()->first.first);
    }
    count += RunUntilIdle(limit - count);
  }
  return count;
}

absl::Time ManualExecutor::NextTimer() const {
  absl::MutexLock lock(&mutex_);
  return timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first.first;
}

absl::Time ManualExecutor::Now() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

void ManualExecutor::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  ready_.push_back(std::move(task));
}

Executor::TimerId ManualExecutor::PostAt(absl::Time when, Task task) {
  Task dropped;  // destroyed outside of the lock
  absl::MutexLock lock(&mutex_);
  const TimerId id = next_id_++;
  if (when == absl::InfiniteFuture()) {
    dropped = std::move(task);
    return id;
  }
  timers_.emplace(std::make_pair(when, id), std::move(task));
  due_.emplace(id, when);
  return id;
}

void ManualExecutor::Cancel(TimerId timer) {
  Task dropped;  // destroyed outside of the lock
  absl::MutexLock lock(&mutex_);
  const auto found = due_.find(timer);
  if (found == due_.end()) return;
  auto node = timers_.extract({found->second, timer});
  dropped = std::move(node.mapped());
  due_.erase(found);
}

bool ManualExecutor::RunsHere() const {
  absl::MutexLock lock(&mutex_);
  return running_on_ == std::this_thread::get_id();
}

}  // namespace muster

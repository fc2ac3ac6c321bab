#include "muster/core/platform/cancellation.h"

#include <utility>

namespace muster {

Cancellation::Registration::Registration(Registration&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), id_(std::exchange(other.id_, 0)) {}

Cancellation::Registration& Cancellation::Registration::operator=(Registration&& other) noexcept {
  if (this != &other) {
    Reset();
    owner_ = std::exchange(other.owner_, nullptr);
    id_ = std::exchange(other.id_, 0);
  }
  return *this;
}

void Cancellation::Registration::Reset() {
  if (owner_ == nullptr) return;
  std::exchange(owner_, nullptr)->Unregister(std::exchange(id_, 0));
}

bool Cancellation::Cancel(absl::Status cause) {
  if (cause.ok()) cause = absl::UnknownError("cancelled with an OK status, which says no cause");
  {
    absl::MutexLock lock(&mutex_);
    if (!cause_.ok()) return false;
    cause_ = cause;
  }
  // One callback at a time leaves the map, so that Reset finds each either there (and takes it
  // away), running (and waits), or done.
  for (;;) {
    Callback callback;
    {
      absl::MutexLock lock(&mutex_);
      running_id_ = 0;
      if (callbacks_.empty()) return true;
      auto node = callbacks_.extract(callbacks_.begin());
      running_id_ = node.key();
      running_on_ = std::this_thread::get_id();
      callback = std::move(node.mapped());
    }
    callback(cause);
    // The callback's captures are gone, too, before Reset returns.
    callback = nullptr;
  }
}

absl::Status Cancellation::status() const {
  absl::MutexLock lock(&mutex_);
  return cause_;
}

Cancellation::Registration Cancellation::OnCancel(Callback callback) {
  absl::Status cause;
  {
    absl::MutexLock lock(&mutex_);
    if (cause_.ok()) {
      const uint64_t id = next_id_++;
      callbacks_.emplace(id, std::move(callback));
      return Registration(this, id);
    }
    cause = cause_;
  }
  callback(cause);
  return Registration();
}

void Cancellation::Unregister(uint64_t id) {
  Callback removed;  // destroyed after the lock is released: its captures may do anything
  absl::MutexLock lock(&mutex_);
  const auto found = callbacks_.find(id);
  if (found != callbacks_.end()) {
    removed = std::move(found->second);
    callbacks_.erase(found);
    return;
  }
  if (running_id_ != id || running_on_ == std::this_thread::get_id()) return;
  const auto done = [this, id] {
    mutex_.AssertReaderHeld();
    return running_id_ != id;
  };
  mutex_.Await(absl::Condition(&done));
}

}  // namespace muster

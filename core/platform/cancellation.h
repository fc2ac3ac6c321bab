// A one-way switch that wakes what blocks.
//
//   Cancellation cancellation;
//   auto on_cancel = cancellation.OnCancel([fd](const absl::Status&) { shutdown(fd, SHUT_RDWR); });
//   ... block on fd ...
//   // another thread:
//   cancellation.Cancel(absl::AbortedError("rank 3 was lost"));
#ifndef MUSTER_CORE_PLATFORM_CANCELLATION_H_
#define MUSTER_CORE_PLATFORM_CANCELLATION_H_

#include <cstdint>
#include <map>
#include <thread>  // NOLINT(build/c++11): for std::thread::id

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace muster {

// Thread-safe. Must outlive its registrations.
class Cancellation {
 public:
  // Runs with the cause, at most once, on the thread that cancels, outside of any lock. Must not
  // block; it may reset registrations, its own too.
  using Callback = absl::AnyInvocable<void(const absl::Status& cause)>;

  // Keeps a callback registered. When its destructor (or Reset) has returned, the callback is not
  // running and will not run: Reset waits for one that runs on another thread. Called by that
  // callback itself it does not wait. Not thread-safe itself.
  class [[nodiscard]] Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration() { Reset(); }
    void Reset();

   private:
    friend class Cancellation;
    Registration(Cancellation* owner, uint64_t id) : owner_(owner), id_(id) {}
    Cancellation* owner_ = nullptr;
    uint64_t id_ = 0;
  };

  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // The first call wins, runs the callbacks in the order of their registration and returns true;
  // later ones change nothing and return false, perhaps while callbacks still run. An OK `cause` is
  // a mistake; it becomes an Unknown error that says so.
  bool Cancel(absl::Status cause);

  // OK until cancelled, then the cause.
  absl::Status status() const;
  bool cancelled() const { return !status().ok(); }

  // Registers `callback`; when already cancelled it runs inside this call.
  Registration OnCancel(Callback callback);

 private:
  void Unregister(uint64_t id);

  mutable absl::Mutex mutex_;
  absl::Status cause_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, Callback> callbacks_ ABSL_GUARDED_BY(mutex_);
  uint64_t running_id_ ABSL_GUARDED_BY(mutex_) = 0;  // the callback that runs now; 0: none
  std::thread::id running_on_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_CANCELLATION_H_

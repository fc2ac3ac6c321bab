// A thread of a test that tells when it has come to where it waits, so that no test sleeps and
// hopes.
//
//   ObservedThread receiver([&] { received = comm->Receive(...); });
//   receiver.AwaitAsleep(MonotonicNow() + absl::Seconds(10));    // it waits for its peer now
//   comm->Abort(...);
//   receiver.join();
#ifndef MUSTER_CORE_PLATFORM_OBSERVED_THREAD_H_
#define MUSTER_CORE_PLATFORM_OBSERVED_THREAD_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <thread>  // NOLINT(build/c++11): absl has no thread

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace muster {

// Movable; ends as a std::thread does: joined or detached first.
class ObservedThread {
 public:
  explicit ObservedThread(std::function<void()> body);
  ObservedThread(ObservedThread&&) = default;
  ObservedThread& operator=(ObservedThread&&) = default;

  // Waits until the body sleeps in the kernel (waits for a lock, a socket, a time) or has returned;
  // false at the deadline. It may have slept only for a moment: a test must hold either way, and
  // finds less if so.
  bool AwaitAsleep(absl::Time deadline) const;

  bool joinable() const { return thread_.joinable(); }
  void join() { thread_.join(); }
  void detach() { thread_.detach(); }

 private:
  struct State {
    absl::Mutex mutex;
    pid_t id ABSL_GUARDED_BY(mutex) = 0;  // of the kernel
    bool returned ABSL_GUARDED_BY(mutex) = false;
  };
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_OBSERVED_THREAD_H_

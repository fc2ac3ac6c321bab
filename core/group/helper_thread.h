// Runs what blocks (a backend's Connect, Finalize, Abort, the end of its communicator) away from
// the control thread.
#ifndef MUSTER_CORE_GROUP_HELPER_THREAD_H_
#define MUSTER_CORE_GROUP_HELPER_THREAD_H_

#include <thread>  // NOLINT: absl has no thread

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace muster {

// One task at a time, each on a thread of its own that is joined before the next and in the
// destructor (which lets go of the thread when it runs there). Not thread-safe.
class HelperThread {
 public:
  HelperThread() = default;
  ~HelperThread();
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  // ResourceExhausted when the system gives no thread; then `task` is dropped without having run.
  absl::Status Start(absl::AnyInvocable<void()> task);
  void Join();
  // Lets go of a task that never returns. What it uses must live on.
  void Abandon();

 private:
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_HELPER_THREAD_H_

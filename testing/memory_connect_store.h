// The ConnectStore of one generation whose ranks are threads of one process: connects a backend in
// a test without a group and without a store.
//
//   MemoryConnectHub hub(2);
//   // On the thread of rank 0:
//   std::unique_ptr<ConnectStore> store = hub.ForRank(0, &cancellation);
//   ConnectContext context;
//   context.store = store.get();
#ifndef MUSTER_TESTING_MEMORY_CONNECT_STORE_H_
#define MUSTER_TESTING_MEMORY_CONNECT_STORE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/collective/backend.h"
#include "muster/core/platform/cancellation.h"

namespace muster::testing {

// What the ranks share. Thread-safe. Outlives the stores that it gives out. Deadlines are of
// MonotonicNow().
class MemoryConnectHub {
 public:
  explicit MemoryConnectHub(int size) : size_(size) {}

  // The view of one rank. Its waits end with the cause when `cancellation` (may be null) is
  // cancelled.
  std::unique_ptr<ConnectStore> ForRank(int rank, Cancellation* cancellation);

  // Waits until `count` ranks are blocked in Get or Exchange. False at the deadline.
  bool AwaitWaiting(int count, absl::Time deadline) const;

 private:
  class View;

  const int size_;
  mutable absl::Mutex mutex_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<std::optional<std::string>>> exchanges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::testing

#endif  // MUSTER_TESTING_MEMORY_CONNECT_STORE_H_

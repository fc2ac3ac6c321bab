// A Store for code that may wait: users, backends while they connect, tests.
//
//   BlockingStore store(&asynchronous, executor);
//   absl::StatusOr<Entry> address = store.WaitForKey("address", deadline);
#ifndef MUSTER_CORE_STORE_BLOCKING_STORE_H_
#define MUSTER_CORE_STORE_BLOCKING_STORE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/executor.h"
#include "muster/core/store/store.h"

namespace muster {

// Thread-safe. Each call waits for the answer, at most until `deadline` (in the executor's time)
// and a moment. Errors are those of Store, and:
//   FailedPrecondition  called by a task of the store's executor, which would wait for itself
//   Cancelled           the executor ended and will never answer
class BlockingStore {
 public:
  // Both outlive this object.
  BlockingStore(Store* store, const Executor* executor) : store_(store), executor_(executor) {}

  absl::StatusOr<Entry> Get(absl::string_view key, absl::Time deadline);
  absl::StatusOr<Revision> Set(absl::string_view key, absl::string_view value, Lifetime lifetime,
                               absl::Time deadline);
  absl::StatusOr<CompareAndSetResult> CompareAndSet(absl::string_view key, Revision expected,
                                                    absl::string_view value, Lifetime lifetime,
                                                    absl::Time deadline);
  absl::Status Delete(absl::string_view key, absl::Time deadline);
  absl::StatusOr<GatherResult> Gather(absl::string_view key, int rank, int size,
                                      absl::string_view value, absl::Time deadline);
  absl::Status Leave(absl::string_view reason, absl::Time deadline);

  // The entry as soon as there is one.
  absl::StatusOr<Entry> WaitForKey(absl::string_view key, absl::Time deadline);

 private:
  Store* const store_;
  const Executor* const executor_;
};

}  // namespace muster

#endif  // MUSTER_CORE_STORE_BLOCKING_STORE_H_

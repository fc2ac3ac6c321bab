// The small exchanges of a backend's Connect, over the job's store.
#ifndef MUSTER_CORE_GROUP_CONNECT_STORE_H_
#define MUSTER_CORE_GROUP_CONNECT_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "muster/core/collective/backend.h"
#include "muster/core/platform/cancellation.h"
#include "muster/core/store/store.h"

namespace muster {

// Keys live under "connect/<group>/<generation>/". Thread-safe; blocks the caller, so never on the
// control thread.
class GroupConnectStore final : public ConnectStore {
 public:
  // `id`: "train/1". `store` lives until Detach, `cancellation` outlives this object.
  GroupConnectStore(Store* store, std::string id, int rank, int size, absl::Time deadline,
                    Cancellation* cancellation);
  // Clear().
  ~GroupConnectStore() override;

  absl::Status Set(absl::string_view key, absl::string_view value) override;
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override;
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key, absl::string_view value,
                                                    absl::Time deadline) override;

  // Deletes what this rank has set. Only when every rank has read it, or none will. Does not wait
  // for the store.
  void Clear();

  // Clear(), and the last that the store hears from here: a Connect that is left behind in its
  // library and comes back later gets an error. After the cancellation, which wakes who waits.
  void Detach();

 private:
  template <class T>
  class Pending;

  std::string Key(absl::string_view key) const;
  // Calls `use` with the store (which never blocks); Cancelled after Detach.
  template <class Use>
  absl::Status WithStore(const Use& use);

  const std::string id_;
  const int rank_;
  const int size_;
  const absl::Time deadline_;
  Cancellation* const cancellation_;
  absl::Mutex mutex_;
  Store* store_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> own_keys_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_CONNECT_STORE_H_

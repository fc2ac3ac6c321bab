// A Store over a ClientCore: what the implementations share. Each adds how its messages travel.
#ifndef MUSTER_CORE_STORE_CLIENT_STORE_H_
#define MUSTER_CORE_STORE_CLIENT_STORE_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/store/store.h"

namespace muster::store_internal {

class ClientCore;

// Thread-safe.
class ClientStore : public Store {
 public:
  ~ClientStore() override;

  void Get(absl::string_view key, absl::Time deadline, Callback<Entry> done) final;
  void Set(absl::string_view key, absl::string_view value, Lifetime lifetime, absl::Time deadline,
           Callback<Revision> done) final;
  void CompareAndSet(absl::string_view key, Revision expected, absl::string_view value,
                     Lifetime lifetime, absl::Time deadline,
                     Callback<CompareAndSetResult> done) final;
  void Delete(absl::string_view key, absl::Time deadline, DoneCallback done) final;
  WatchId Watch(absl::string_view prefix, WatchCallback changed) final;
  void Unwatch(WatchId watch) final;
  void GatherAmong(absl::string_view key, const Gathering& among, absl::string_view value,
                   absl::Time deadline, Callback<GatherResult> done) final;
  void Withdraw(absl::string_view key, int rank, absl::string_view reason) final;
  void Leave(absl::string_view reason, absl::Time deadline, DoneCallback done) final;

 protected:
  explicit ClientStore(std::shared_ptr<ClientCore> core);

  ClientCore& core() { return *core_; }
  // For a forked child, where even the core's end would touch what is the parent's.
  void LeakCore();

 private:
  const std::shared_ptr<ClientCore> core_;
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_CLIENT_STORE_H_

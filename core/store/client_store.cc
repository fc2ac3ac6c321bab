#include "muster/core/store/client_store.h"

#include <utility>

#include "absl/debugging/leak_check.h"
#include "muster/core/store/client_core.h"

namespace muster::store_internal {

ClientStore::ClientStore(std::shared_ptr<ClientCore> core) : core_(std::move(core)) {}

ClientStore::~ClientStore() = default;

void ClientStore::LeakCore() { absl::IgnoreLeak(new std::shared_ptr<ClientCore>(core_)); }

void ClientStore::Get(absl::string_view key, absl::Time deadline, Callback<Entry> done) {
  core_->Get(key, deadline, std::move(done));
}

void ClientStore::Set(absl::string_view key, absl::string_view value, Lifetime lifetime,
                      absl::Time deadline, Callback<Revision> done) {
  core_->Set(key, value, lifetime, deadline, std::move(done));
}

void ClientStore::CompareAndSet(absl::string_view key, Revision expected, absl::string_view value,
                                Lifetime lifetime, absl::Time deadline,
                                Callback<CompareAndSetResult> done) {
  core_->CompareAndSet(key, expected, value, lifetime, deadline, std::move(done));
}

void ClientStore::Delete(absl::string_view key, absl::Time deadline, DoneCallback done) {
  core_->Delete(key, deadline, std::move(done));
}

Store::WatchId ClientStore::Watch(absl::string_view prefix, WatchCallback changed) {
  return core_->Watch(prefix, std::move(changed));
}

void ClientStore::Unwatch(WatchId watch) { core_->Unwatch(watch); }

void ClientStore::GatherAmong(absl::string_view key, const Gathering& among,
                              absl::string_view value, absl::Time deadline,
                              Callback<GatherResult> done) {
  core_->GatherAmong(key, among, value, deadline, std::move(done));
}

void ClientStore::Withdraw(absl::string_view key, int rank, absl::string_view reason) {
  core_->Withdraw(key, rank, reason);
}

void ClientStore::Leave(absl::string_view reason, absl::Time deadline, DoneCallback done) {
  core_->Leave(reason, deadline, std::move(done));
}

}  // namespace muster::store_internal

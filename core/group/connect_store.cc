#include "muster/core/group/connect_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {

// A result that arrives on the store's executor, a cancellation from anywhere, or the deadline,
// whichever is first. Shared with the callbacks, which may outlast the wait.
template <class T>
class GroupConnectStore::Pending {
 public:
  void Finish(absl::StatusOr<T> result) {
    absl::MutexLock lock(&mutex_);
    if (!result_.has_value()) result_ = std::move(result);
  }

  // `what` is for the deadline's message.
  absl::StatusOr<T> Wait(absl::Time deadline, absl::string_view what) {
    absl::MutexLock lock(&mutex_);
    const auto arrived = [this]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return result_.has_value(); };
    mutex_.AwaitWithTimeout(absl::Condition(&arrived), deadline - MonotonicNow());
    if (result_.has_value()) return *result_;
    return absl::DeadlineExceededError(absl::StrCat(what, " did not come in time"));
  }

  static Cancellation::Registration WakeOn(Cancellation* cancellation,
                                           std::shared_ptr<Pending> pending) {
    if (cancellation == nullptr) return {};
    return cancellation->OnCancel([pending](const absl::Status& cause) { pending->Finish(cause); });
  }

 private:
  absl::Mutex mutex_;
  std::optional<absl::StatusOr<T>> result_ ABSL_GUARDED_BY(mutex_);
};

GroupConnectStore::GroupConnectStore(Store* store, std::string id, int rank, int size,
                                     absl::Time deadline, Cancellation* cancellation)
    : id_(std::move(id)),
      rank_(rank),
      size_(size),
      deadline_(deadline),
      cancellation_(cancellation),
      store_(store) {}

GroupConnectStore::~GroupConnectStore() { Clear(); }

std::string GroupConnectStore::Key(absl::string_view key) const {
  return absl::StrCat("connect/", id_, "/", key);
}

template <class Use>
absl::Status GroupConnectStore::WithStore(const Use& use) {
  absl::MutexLock lock(&mutex_);
  if (store_ == nullptr) {
    return absl::CancelledError(
        absl::StrCat("the set-up of '", id_, "' ended while its Connect had not returned"));
  }
  use(*store_);
  return absl::OkStatus();
}

absl::Status GroupConnectStore::Set(absl::string_view key, absl::string_view value) {
  auto pending = std::make_shared<Pending<Revision>>();
  auto registration = Pending<Revision>::WakeOn(cancellation_, pending);
  absl::Status asked = WithStore([&](Store& store) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    own_keys_.push_back(Key(key));
    store.Set(Key(key), value, Lifetime::kSession, deadline_,
              [pending](absl::StatusOr<Revision> r) { pending->Finish(std::move(r)); });
  });
  if (!asked.ok()) return asked;
  return pending->Wait(deadline_, absl::StrCat("the store's answer for '", key, "'")).status();
}

absl::StatusOr<std::string> GroupConnectStore::Get(absl::string_view key, absl::Time deadline) {
  auto pending = std::make_shared<Pending<std::string>>();
  auto registration = Pending<std::string>::WakeOn(cancellation_, pending);
  const std::string wanted = Key(key);
  // A watch, not a poll: the snapshot has the value, or the change brings it. The prefix matches
  // longer keys too.
  Store::WatchId watch = 0;
  absl::Status asked = WithStore([&](Store& store) {
    watch = store.Watch(wanted, [pending, wanted](absl::StatusOr<std::vector<WatchEvent>> events) {
      if (!events.ok()) {
        pending->Finish(events.status());
        return;
      }
      for (WatchEvent& event : *events) {
        if (event.kind == WatchEvent::Kind::kPut && event.entry.key == wanted) {
          pending->Finish(std::move(event.entry.value));
        }
      }
    });
  });
  if (!asked.ok()) return asked;
  absl::StatusOr<std::string> value =
      pending->Wait(std::min(deadline, deadline_), absl::StrCat("'", key, "' from another rank"));
  WithStore([watch](Store& store) { store.Unwatch(watch); }).IgnoreError();
  return value;
}

absl::StatusOr<std::vector<std::string>> GroupConnectStore::Exchange(absl::string_view key,
                                                                     absl::string_view value,
                                                                     absl::Time deadline) {
  using Values = std::vector<std::string>;
  auto pending = std::make_shared<Pending<Values>>();
  auto registration = Pending<Values>::WakeOn(cancellation_, pending);
  deadline = std::min(deadline, deadline_);
  // The store names who is missing when its deadline passes, so our own comes a little later.
  absl::Status asked = WithStore([&](Store& store) {
    store.Gather(Key(key), rank_, size_, value, deadline,
                 [pending](absl::StatusOr<GatherResult> result) {
                   if (result.ok()) {
                     pending->Finish(std::move(result->values));
                   } else {
                     pending->Finish(result.status());
                   }
                 });
  });
  if (!asked.ok()) return asked;
  absl::StatusOr<Values> values =
      pending->Wait(deadline + absl::Seconds(1), absl::StrCat("the other ranks' '", key, "'"));
  if (!values.ok()) {
    WithStore([&](Store& store) {
      store.Withdraw(Key(key), rank_, values.status().message());
    }).IgnoreError();
  }
  return values;
}

void GroupConnectStore::Clear() {
  WithStore([this](Store& store) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const std::string& key : own_keys_) {
      store.Delete(key, absl::InfiniteFuture(), [](absl::Status) {});
    }
    own_keys_.clear();
  }).IgnoreError();
}

void GroupConnectStore::Detach() {
  Clear();
  absl::MutexLock lock(&mutex_);
  store_ = nullptr;
}

}  // namespace muster

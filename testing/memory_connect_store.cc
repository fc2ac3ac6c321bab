#include "muster/testing/memory_connect_store.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/platform/describe_ranks.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster::testing {

class MemoryConnectHub::View : public ConnectStore {
 public:
  View(MemoryConnectHub* hub, int rank, Cancellation* cancellation) : hub_(hub), rank_(rank) {
    if (cancellation == nullptr) return;
    // The condition below looks at cause_, not at the cancellation: no lock is taken inside
    // another.
    registration_ = cancellation->OnCancel([this](const absl::Status& cause) {
      absl::MutexLock lock(&hub_->mutex_);
      cause_ = cause;
    });
  }

  absl::Status Set(absl::string_view key, absl::string_view value) override {
    absl::MutexLock lock(&hub_->mutex_);
    if (!cause_.ok()) return cause_;
    hub_->values_[std::string(key)] = std::string(value);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    const std::string name(key);
    absl::MutexLock lock(&hub_->mutex_);
    absl::Status status = Wait(
        [&] {
          hub_->mutex_.AssertHeld();
          return hub_->values_.count(name) > 0;
        },
        deadline);
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(absl::StrCat("no rank has set \"", name, "\""));
    }
    if (!status.ok()) return status;
    return hub_->values_[name];
  }

  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key, absl::string_view value,
                                                    absl::Time deadline) override {
    absl::MutexLock lock(&hub_->mutex_);
    auto& given = hub_->exchanges_[std::string(key)];
    given.resize(static_cast<size_t>(hub_->size_));
    given[static_cast<size_t>(rank_)] = std::string(value);
    const auto missing = [&given] {
      std::vector<int> ranks;
      for (size_t r = 0; r < given.size(); ++r) {
        if (!given[r].has_value()) ranks.push_back(static_cast<int>(r));
      }
      return ranks;
    };
    absl::Status status = Wait([&] { return missing().empty(); }, deadline);
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(
          absl::StrCat(DescribeRanks(missing()), " did not come to \"", key, "\""));
    }
    if (!status.ok()) return status;
    std::vector<std::string> values;
    for (const std::optional<std::string>& of_rank : given) values.push_back(*of_rank);
    return values;
  }

 private:
  absl::Status Wait(absl::FunctionRef<bool()> ready, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub_->mutex_) {
    const auto done = [this, ready] { return !cause_.ok() || ready(); };
    ++hub_->waiting_;
    const bool in_time =
        hub_->mutex_.AwaitWithTimeout(absl::Condition(&done), deadline - MonotonicNow());
    --hub_->waiting_;
    if (!cause_.ok()) return cause_;
    return in_time ? absl::OkStatus() : absl::DeadlineExceededError("");
  }

  MemoryConnectHub* const hub_;
  const int rank_;
  absl::Status cause_;                       // guarded by the hub's mutex
  Cancellation::Registration registration_;  // last: its callback uses the rest
};

std::unique_ptr<ConnectStore> MemoryConnectHub::ForRank(int rank, Cancellation* cancellation) {
  return std::make_unique<View>(this, rank, cancellation);
}

bool MemoryConnectHub::AwaitWaiting(int count, absl::Time deadline) const {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count] {
    mutex_.AssertReaderHeld();
    return waiting_ >= count;
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&enough), deadline - MonotonicNow());
}

}  // namespace muster::testing

#include "muster/core/group/group_lease.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "muster/core/group/pool_core.h"

namespace muster {
namespace {

// What an empty lease points to: every operation on it says that the lease is empty.
Group& NoGroup() {
  static Group* const group = new Group(nullptr, absl::ZeroDuration());
  return *group;
}

absl::Status Empty(const char* call) {
  return absl::FailedPreconditionError(
      absl::StrCat(call, ": this lease is empty (it was released, or moved from)"));
}

}  // namespace

GroupLease::GroupLease() = default;
GroupLease::GroupLease(std::unique_ptr<LeaseRecord> record) : record_(std::move(record)) {}
GroupLease::GroupLease(GroupLease&& other) noexcept : record_(other.TakeRecord()) {}

GroupLease& GroupLease::operator=(GroupLease&& other) noexcept {
  if (this != &other) {
    End();
    std::shared_ptr<LeaseRecord> record = other.TakeRecord();
    absl::MutexLock lock(&mutex_);
    record_ = std::move(record);
  }
  return *this;
}

GroupLease::~GroupLease() { End(); }

std::shared_ptr<LeaseRecord> GroupLease::Record() const {
  absl::MutexLock lock(&mutex_);
  return record_;
}

std::shared_ptr<LeaseRecord> GroupLease::TakeRecord() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(record_, nullptr);
}

void GroupLease::End() noexcept {
  if (const std::shared_ptr<LeaseRecord> record = Record();
      record != nullptr && record->unwinding()) {
    record->core().AbortByHolder(*record, absl::AbortedError("an exception"));
  }
  Release();
}

Group& GroupLease::operator*() const {
  const std::shared_ptr<LeaseRecord> record = Record();
  return record == nullptr ? NoGroup() : record->group();
}
Group* GroupLease::operator->() const { return &**this; }

void GroupLease::Release() {
  if (const std::shared_ptr<LeaseRecord> record = TakeRecord(); record != nullptr) {
    record->core().Release(*record);
  }
}

absl::Status GroupLease::Close() {
  const std::shared_ptr<LeaseRecord> record = Record();
  return record == nullptr ? Empty("Close")
                           : record->core().CloseByHolder(*record, record->close_timeout());
}

absl::Status GroupLease::Close(absl::Duration timeout) {
  const std::shared_ptr<LeaseRecord> record = Record();
  return record == nullptr ? Empty("Close") : record->core().CloseByHolder(*record, timeout);
}

void GroupLease::Abort(const absl::Status& cause) {
  if (const std::shared_ptr<LeaseRecord> record = Record(); record != nullptr) {
    record->core().AbortByHolder(*record, cause);
  }
}

}  // namespace muster

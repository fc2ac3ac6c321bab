#include "muster/core/group/group_lease.h"

#include <utility>

#include "absl/debugging/leak_check.h"
#include "muster/core/group/pool_core.h"

namespace muster {
namespace {

// What an empty lease points to: every operation on it says that the lease is empty.
Group& NoGroup() {
  static Group* const group = new Group(nullptr, absl::ZeroDuration());
  return *group;
}

}  // namespace

GroupLease::GroupLease() = default;

GroupLease::GroupLease(std::unique_ptr<LeaseRecord> record) {
  absl::MutexLock lock(&slot_->mutex);
  slot_->record = std::move(record);
}

GroupLease::GroupLease(GroupLease&& other) noexcept { Take(other); }

GroupLease& GroupLease::operator=(GroupLease&& other) noexcept {
  if (this != &other) {
    End();
    Take(other);
  }
  return *this;
}

void GroupLease::Take(GroupLease& other) noexcept {
  if (forked()) {
    LeaveSlot();
    slot_ = std::make_unique<Slot>();
  }
  if (other.forked()) {
    slot_->made_in = other.slot_->made_in;
    ParentsRecord() = std::move(other.ParentsRecord());
    return;
  }
  std::shared_ptr<LeaseRecord> record = other.TakeRecord();
  absl::MutexLock lock(&slot_->mutex);
  slot_->record = std::move(record);
}

// What the parent made is left where it is: its locks, and what those are in.
void GroupLease::LeaveSlot() noexcept {
  if (forked()) absl::IgnoreLeak(slot_.release());
}

GroupLease::~GroupLease() {
  End();
  LeaveSlot();
}

std::shared_ptr<LeaseRecord> GroupLease::Record() const {
  if (forked()) return nullptr;
  absl::MutexLock lock(&slot_->mutex);
  return slot_->record;
}

std::shared_ptr<LeaseRecord> GroupLease::TakeRecord() {
  if (forked()) return nullptr;
  absl::MutexLock lock(&slot_->mutex);
  return std::exchange(slot_->record, nullptr);
}

std::shared_ptr<LeaseRecord>& GroupLease::ParentsRecord() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  return slot_->record;
}

void GroupLease::End() noexcept {
  if (const std::shared_ptr<LeaseRecord> record = Record();
      record != nullptr && record->unwinding()) {
    record->core().AbortByHolder(*record, absl::AbortedError("an exception"));
  }
  Release();
}

Group& GroupLease::operator*() const {
  if (forked()) {
    const std::shared_ptr<LeaseRecord>& parents = ParentsRecord();
    return parents == nullptr ? NoGroup() : parents->group();
  }
  const std::shared_ptr<LeaseRecord> record = Record();
  return record == nullptr ? NoGroup() : record->group();
}
Group* GroupLease::operator->() const { return &**this; }

void GroupLease::Release() {
  if (const std::shared_ptr<LeaseRecord> record = TakeRecord(); record != nullptr) {
    record->core().Release(*record);
  }
}

absl::Status GroupLease::Close() { return CloseWithin(std::nullopt, false); }

absl::Status GroupLease::Close(absl::Duration timeout) { return CloseWithin(timeout, false); }

absl::Status GroupLease::CloseWithChildren() { return CloseWithin(std::nullopt, true); }

absl::Status GroupLease::CloseWithChildren(absl::Duration timeout) {
  return CloseWithin(timeout, true);
}

absl::Status GroupLease::CloseWithin(std::optional<absl::Duration> timeout, bool with_children) {
  if (forked()) {
    return absl::FailedPreconditionError(
        "Close in a forked child: the group belongs to the process that made it");
  }
  const std::shared_ptr<LeaseRecord> record = Record();
  if (record == nullptr) {
    return absl::FailedPreconditionError(
        "Close: this lease is empty (it was released, or moved from)");
  }
  const absl::Duration within = timeout.value_or(record->close_timeout());
  return with_children ? record->core().CloseWithChildren(*record, within)
                       : record->core().CloseByHolder(*record, within);
}

void GroupLease::Abort(const absl::Status& cause) {
  if (const std::shared_ptr<LeaseRecord> record = Record(); record != nullptr) {
    record->core().AbortByHolder(*record, cause);
  }
}

}  // namespace muster

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
GroupLease::GroupLease(GroupLease&&) noexcept = default;

GroupLease& GroupLease::operator=(GroupLease&& other) noexcept {
  if (this != &other) {
    End();
    record_ = std::move(other.record_);
  }
  return *this;
}

GroupLease::~GroupLease() { End(); }

void GroupLease::End() noexcept {
  if (record_ == nullptr) return;
  if (record_->unwinding()) {
    record_->core().AbortByHolder(*record_, absl::AbortedError("an exception"));
  }
  Release();
}

Group& GroupLease::operator*() const { return record_ == nullptr ? NoGroup() : record_->group(); }
Group* GroupLease::operator->() const { return &**this; }

void GroupLease::Release() {
  if (record_ == nullptr) return;
  record_->core().Release(*record_);
  record_.reset();
}

absl::Status GroupLease::Close() {
  return record_ == nullptr ? Empty("Close") : Close(record_->close_timeout());
}

absl::Status GroupLease::Close(absl::Duration timeout) {
  return record_ == nullptr ? Empty("Close") : record_->core().CloseByHolder(*record_, timeout);
}

void GroupLease::Abort(const absl::Status& cause) {
  if (record_ != nullptr) record_->core().AbortByHolder(*record_, cause);
}

}  // namespace muster

#include "muster/core/group/operation_gate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

void OperationGate::Open() {
  absl::MutexLock lock(&mutex_);
  refusal_ = absl::OkStatus();
}

absl::Status OperationGate::Blocked(int64_t number, Kind kind) const {
  if (!refusal_.ok()) return refusal_;
  if (draining_ && (kind == Kind::kPointToPoint || number > limit_)) {
    return absl::FailedPreconditionError(absl::StrCat("the group is draining: ", closed_by_));
  }
  return absl::OkStatus();
}

absl::StatusOr<OperationGate::Ticket> OperationGate::Enter(absl::string_view name, Kind kind,
                                                           Mode mode) {
  absl::MutexLock lock(&mutex_);
  const int64_t number = kind == Kind::kCollective ? issued_ + 1 : issued_;
  if (absl::Status blocked = Blocked(number, kind); !blocked.ok()) return blocked;
  // The last is the only one that can be: nothing is let in behind it.
  if (!inside_.empty() && inside_.back().blocking) {
    return absl::FailedPreconditionError(absl::StrCat(
        "another thread is in ", inside_.back().label,
        "; a group takes one operation at a time, since ranks would order two differently"));
  }
  Ticket ticket;
  ticket.id = next_id_++;
  ticket.kind = kind;
  ticket.mode = inside_.empty() ? mode : Mode::kQueued;
  ticket.number = number;
  ticket.label = kind == Kind::kCollective ? absl::StrCat(name, " #", number) : std::string(name);
  issued_ = number;
  inside_.push_back({ticket.id, ticket.label, mode == Mode::kBlocking});
  return ticket;
}

void OperationGate::Leave(const Ticket& ticket) {
  absl::AnyInvocable<void(int64_t)> drained;
  int64_t completed = 0;
  {
    absl::MutexLock lock(&mutex_);
    // In the order in which they came, but for those that an abort takes out of the queue behind
    // one that does not return.
    const auto entered = std::find_if(inside_.begin(), inside_.end(),
                                      [&](const Entered& e) { return e.id == ticket.id; });
    if (entered != inside_.end()) inside_.erase(entered);
    completed_ = std::max(completed_, ticket.number);
    if (draining_ && inside_.empty() && completed_ >= limit_) {
      drained = std::exchange(drained_, nullptr);
    }
    completed = completed_;
  }
  if (drained) drained(completed);
}

int64_t OperationGate::Seal(std::string closed_by) {
  absl::MutexLock lock(&mutex_);
  sealed_ = true;
  if (!draining_) {
    draining_ = true;
    limit_ = issued_;
    closed_by_ = std::move(closed_by);
  }
  return issued_;
}

bool OperationGate::Drain(int64_t sequence, std::string closed_by,
                          absl::AnyInvocable<void(int64_t)> done) {
  int64_t completed = 0;
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    limit_ = sealed_ ? std::min(sequence, issued_) : sequence;
    closed_by_ = std::move(closed_by);
    drained_ = nullptr;
    if (!inside_.empty() && issued_ > limit_) return false;
    if (!inside_.empty() || completed_ < limit_) {
      drained_ = std::move(done);
      return true;
    }
    completed = completed_;
  }
  done(completed);
  return true;
}

void OperationGate::Refuse(absl::Status why, bool replace) {
  absl::MutexLock lock(&mutex_);
  if (refusal_.ok() || replace) refusal_ = std::move(why);
  drained_ = nullptr;
}

absl::Status OperationGate::status() const {
  absl::MutexLock lock(&mutex_);
  return Blocked(issued_ + 1, Kind::kCollective);
}

int64_t OperationGate::issued() const {
  absl::MutexLock lock(&mutex_);
  return issued_;
}

int64_t OperationGate::completed() const {
  absl::MutexLock lock(&mutex_);
  return completed_;
}

bool OperationGate::idle() const {
  absl::MutexLock lock(&mutex_);
  return inside_.empty();
}

std::string OperationGate::Inside() const {
  absl::MutexLock lock(&mutex_);
  if (inside_.empty()) return "";
  if (inside_.size() == 1) return inside_.front().label;
  return absl::StrCat(inside_.size(), " operations, ", inside_.front().label, " first");
}

}  // namespace muster

// GroupProtocol and the group's record: what a rank writes there, and what it does about what it
// finds.
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "muster/core/lifecycle/group_protocol.h"

namespace muster {

Actions GroupProtocol::OnRecord(absl::Time now, Revision revision, const GroupRecord& record) {
  TakeRecord(now, revision, record);
  return Finish();
}

Actions GroupProtocol::OnRecordWritten(absl::Time now, absl::StatusOr<CompareAndSetResult> result) {
  write_in_flight_ = false;
  const bool was_cause = std::exchange(writing_cause_, false);
  if (IsTerminal(state())) return Finish();
  absl::StatusOr<GroupRecord> current =
      result.ok() ? GroupRecord() : absl::StatusOr<GroupRecord>(result.status());
  if (result.ok() && result->current.revision != 0) {
    current = GroupRecord::Decode(result->current.value);
  }
  if (!current.ok()) {
    FailNow(now,
            absl::Status(current.status().code(),
                         absl::StrCat("the record of '", id(),
                                      "' was not written: ", current.status().message())),
            Certainty::kCause);
    // The failure is still to be told; when that is what could not be written, it stays with this
    // rank.
    was_cause ? Resolve(candidate_) : Reconcile(now);
    return Finish();
  }
  TakeRecord(now, result->current.revision, *current);
  Reconcile(now);
  return Finish();
}

void GroupProtocol::TakeRecord(absl::Time now, Revision revision, const GroupRecord& record) {
  if (revision <= record_revision_) return;
  record_revision_ = revision;
  record_ = record;
  HandleRecord(now);
}

// Whether the record tells of another life of the name than ours: a later one, or one with other
// members.
bool GroupProtocol::Superseded() const {
  return record_.generation > generation() ||
         (record_.generation == generation() && record_.incarnations != agreement_.incarnations);
}

void GroupProtocol::HandleRecord(absl::Time now) {
  if (generation() == 0 || IsTerminal(state()) || agreed_) return;
  if (Superseded()) {
    // The others went on without us: we were declared dead, or slept through it.
    FailNow(now,
            absl::AbortedError(
                absl::StrCat("'", id(), "' was replaced by generation ", record_.generation)),
            Certainty::kCause);
    Resolve(candidate_);
    return;
  }
  if (record_.generation < generation()) return;
  want_live_ = false;
  recorded_ = !record_.cause.ok();
  if (!record_.cause.ok()) {
    FailNow(now, record_.cause, Certainty::kCause);
    Resolve(record_.cause);
    return;
  }
  // Not before: should all who have met die now, a generation of which nothing was written is
  // forgotten, and comes again.
  if (want_connect_ && state() == GroupState::kConnecting) {
    want_connect_ = false;
    Do(action::Connect{agreement_, setup_by_});
  }
  HandleIntent(now);
}

bool GroupProtocol::OwnError() const {
  GroupRecord record;
  record.cause = cause_;
  if (const std::optional<int> at_fault = record.RankAtFault(); at_fault.has_value()) {
    return at_fault == me();
  }
  // Unavailable: a suspicion, or the loss of the store.
  return found_here_ && cause_ == candidate_ && !absl::IsUnavailable(cause_);
}

// Writes what we want into the record, one compare-and-set at a time; a lost race shows what is
// there and comes here again.
void GroupProtocol::Reconcile(absl::Time now) {
  if (agreed_) {
    if (want_cause_) Resolve(candidate_);
    return;
  }
  if (write_in_flight_ || generation() == 0 || store_lost_ || !cause_.ok() || Superseded()) return;
  // The first cause is everybody's.
  if (record_.generation == generation() && !record_.cause.ok()) return;
  GroupRecord next = record_;
  if (record_.generation < generation()) {
    next = GroupRecord();
    next.generation = generation();
    next.incarnations = agreement_.incarnations;
  }
  if (want_cause_) {
    writing_cause_ = true;
    written_at_ = now;
    next.cause = candidate_;
  } else if (want_intent_.has_value() && !voting_ &&
             (state() == GroupState::kReady || state() == GroupState::kDraining)) {
    const int64_t last = next.intent.has_value() ? next.intent->number : 0;
    next.intent = want_intent_;
    next.intent->number = last + 1;
  } else if (!want_live_) {
    return;
  }
  write_in_flight_ = true;
  Do(action::WriteRecord{record_revision_, std::move(next)});
}

}  // namespace muster

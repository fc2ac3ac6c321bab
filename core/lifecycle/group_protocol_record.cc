// GroupProtocol and the group's record: what a rank writes there, and what it does about what it
// finds.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
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
    was_cause ? Resolve(candidate_) : Reconcile();
    return Finish();
  }
  TakeRecord(now, result->current.revision, *current);
  Reconcile();
  return Finish();
}

void GroupProtocol::ExcuseSuccessor() {
  if (!lost_peer_.has_value()) return;
  const int rank = lost_peer_->rank;
  const int member = Member(rank);
  if (agreement_.incarnations[static_cast<size_t>(member)] == lost_peer_->incarnation) return;
  candidate_ = absl::UnavailableError(
      absl::StrCat("'", id(), "' was given up by rank ", me(),
                   ", which did not know yet that another process had taken the place of rank ",
                   rank, ": ", candidate_.message()));
}

void GroupProtocol::BeginDraining(absl::Time now, absl::Duration timeout, int64_t sequence,
                                  std::string closed_by) {
  Apply(GroupEvent::kCloseRequested);
  close_by_ = now + timeout;
  Do(action::Drain{sequence, std::move(closed_by)});
}

void GroupProtocol::HandleIntent(absl::Time now) {
  if (record_.generation != generation() || !record_.intent.has_value()) return;
  if (record_.intent->number <= handled_intent_) return;
  if (state() != GroupState::kReady && state() != GroupState::kDraining) return;
  const CloseIntent& intent = *record_.intent;
  handled_intent_ = intent.number;
  voting_ = true;
  if (intent.kind == CloseIntent::Kind::kClose) {
    const std::optional<CloseIntent> ours =
        std::exchange(want_intent_, std::nullopt);  // whoever asked first, the group closes
    if (ours.has_value() && ours->kind == CloseIntent::Kind::kClose) {
      CheckSameWork(now, ours->sequence);
    }
    if (state() == GroupState::kAborting) return;
    if (state() == GroupState::kReady) {
      // The one who closes may have more patience than is usual: the others' must last as long.
      BeginDraining(now, std::max(options_.close_timeout, intent.timeout), intent.sequence,
                    intent.ClosedBy());
    } else if (intent.rank != me()) {
      drained_ = false;  // to the number of the rank that asked first
      Do(action::Drain{intent.sequence, intent.ClosedBy()});
    }
    VoteWhenDrained();
  } else if (state() == GroupState::kDraining) {
    VoteWhenDrained();  // it closes here anyway: nobody holds on to it
  } else {
    if (want_intent_.has_value() && want_intent_->kind == CloseIntent::Kind::kReplace) {
      want_intent_.reset();
    }
    close_by_ = now + options_.close_timeout;
    Do(action::AskHolders{});
  }
}

void GroupProtocol::CheckSameWork(absl::Time now, int64_t issued) {
  if (record_.generation != generation() || !record_.intent.has_value() ||
      issued >= record_.intent->sequence) {
    return;
  }
  FailNow(now,
          absl::FailedPreconditionError(absl::StrCat(record_.intent->ClosedBy(), " and rank ", me(),
                                                     " closed after #", issued, " of '", id(),
                                                     "': the ranks did not do the same work")),
          Certainty::kCause);
}

void GroupProtocol::CheckSameEnd(absl::Time now, absl::Span<const int64_t> finished) {
  const CloseIntent& intent = *record_.intent;
  if (intent.kind != CloseIntent::Kind::kClose) return;  // nobody works: nobody counts
  for (int rank = 0; rank < static_cast<int>(finished.size()); ++rank) {
    if (finished[rank] == intent.sequence) continue;
    FailNow(now,
            absl::FailedPreconditionError(absl::StrCat(
                intent.ClosedBy(), " and rank ", InJob(rank), " had finished #", finished[rank],
                " of '", id(), "': the ranks did not do the same work")),
            Certainty::kCause);
    return;
  }
}

void GroupProtocol::VoteWhenDrained() {
  if (state() == GroupState::kDraining && drained_ && voting_ && pending_gather_.empty()) {
    SendVote("");
  }
}

void GroupProtocol::SendVote(const std::string& holders) {
  CloseVote vote;
  vote.sequence = drained_sequence_;
  vote.holders = holders;
  pending_gather_ = VoteKey(scope_, generation(), handled_intent_);
  Do(action::Vote{pending_gather_, vote.Encode(), close_by_});
}

void GroupProtocol::AgreeToClose(absl::Time now) {
  if (state() == GroupState::kReady) {  // a replacement that nobody refused: there is no lease, so
                                        // there is no work
    Apply(GroupEvent::kCloseRequested);
    Apply(GroupEvent::kDrained);
  }
  close_by_ = std::max(close_by_, now + options_.close_timeout);
  want_intent_.reset();
  Apply(GroupEvent::kCloseAgreed);
  Do(action::Finalize{close_by_});
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
  if (generation() == 0 || IsTerminal(state()) || state() == GroupState::kClosing) return;
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
void GroupProtocol::Reconcile() {
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

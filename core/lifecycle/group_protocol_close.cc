// GroupProtocol, its orderly end: who wants to close or to replace the group, the work that still
// has to end, the vote, and what a backend's Finalize makes of it.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "muster/core/lifecycle/group_protocol.h"
#include "muster/core/lifecycle/in_words_of_groups.h"

namespace muster {

using lifecycle_internal::InWordsOfGroups;
using lifecycle_internal::Prefixed;

Actions GroupProtocol::Close(absl::Time now, absl::Duration timeout, int64_t issued) {
  switch (state()) {
    case GroupState::kCreated:
      Apply(GroupEvent::kCloseRequested);
      break;
    case GroupState::kRendezvous:
    case GroupState::kConnecting:
      FailNow(now,
              absl::CancelledError(
                  absl::StrCat("rank ", me(), " closed '", id(), "' during its set-up")),
              Certainty::kCause);
      break;
    case GroupState::kReady: {
      CloseIntent intent;
      intent.kind = CloseIntent::Kind::kClose;
      intent.rank = me();
      intent.sequence = issued;
      intent.timeout = timeout;
      BeginDraining(now, timeout, issued, intent.ClosedBy());
      want_intent_ = std::move(intent);
      Reconcile(now);
      break;
    }
    case GroupState::kDraining:
      close_by_ = std::min(close_by_, now + timeout);
      CheckSameWork(now, issued);
      break;
    default:
      break;
  }
  return Finish();
}

Actions GroupProtocol::Propose(absl::Time now, const std::string& wanted) {
  if (state() == GroupState::kReady && !voting_ && !want_intent_.has_value()) {
    CloseIntent intent;
    intent.kind = CloseIntent::Kind::kReplace;
    intent.rank = me();
    intent.wanted = wanted;
    want_intent_ = std::move(intent);
    close_by_ = now + options_.close_timeout;
    Reconcile(now);
  }
  return Finish();
}

Actions GroupProtocol::OnDrained(int64_t sequence) {
  if (state() != GroupState::kDraining || drained_) return Finish();
  Apply(GroupEvent::kDrained);
  drained_ = true;
  drained_sequence_ = sequence;
  VoteWhenDrained();
  return Finish();
}

Actions GroupProtocol::OnHolders(const std::string& holders) {
  if (state() == GroupState::kReady && voting_ && pending_gather_.empty()) SendVote(holders);
  return Finish();
}

Actions GroupProtocol::OnFinalized(absl::Time now, absl::Status result) {
  if (state() != GroupState::kClosing) return Finish();
  if (result.ok()) {
    Apply(GroupEvent::kFinalized);
  } else {
    FailToClose(now, result);
  }
  return Finish();
}

void GroupProtocol::FailToClose(absl::Time now, const absl::Status& why) {
  const std::string not_clean = absl::StrCat("'", id(), "' was not closed cleanly: ");
  // Whom a broken connection or a wait names may only have been next to the one that is gone.
  const bool for_another = absl::IsUnavailable(why) || absl::IsDeadlineExceeded(why);
  if (for_another && !lost_closing_.empty()) {
    FailNow(now, absl::UnavailableError(not_clean + lost_closing_), Certainty::kCause);
  } else {
    FailNow(now, Prefixed(not_clean, why), CertaintyOf(why));
  }
}

Actions GroupProtocol::OnVotes(absl::Time now, absl::StatusOr<GatherResult> result) {
  const std::string gathered = std::exchange(pending_gather_, "");
  if (!voting_) return Finish();
  voting_ = false;
  if (state() != GroupState::kReady && state() != GroupState::kDraining) return Finish();
  if (!result.ok()) {
    FailNow(now,
            Prefixed(absl::StrCat("the ranks of '", id(), "' did not agree to close: "),
                     InWordsOfGroups(result.status(), gathered, "did not answer in time")),
            absl::IsDeadlineExceeded(result.status()) ? Certainty::kCause : Certainty::kSuspicion);
    return Finish();
  }
  std::vector<std::string> refusals;
  std::vector<int64_t> finished;
  for (int rank = 0; rank < static_cast<int>(result->values.size()); ++rank) {
    absl::StatusOr<CloseVote> vote = CloseVote::Decode(result->values[rank]);
    if (!vote.ok()) {
      FailNow(now, vote.status(), Certainty::kCause);
      return Finish();
    }
    finished.push_back(vote->sequence);
    if (!vote->holders.empty()) {
      refusals.push_back(absl::StrCat("rank ", InJob(rank), " (", vote->holders, ")"));
    }
  }
  if (refusals.empty()) {
    CheckSameEnd(now, finished);
    if (state() != GroupState::kAborting) AgreeToClose(now);
  } else {
    Do(action::ProposalRefused{absl::FailedPreconditionError(
        absl::StrCat("group '", id(), "' is held by ", absl::StrJoin(refusals, ", "), " and rank ",
                     record_.intent->rank, " wants another one under that name (",
                     record_.intent->wanted, "); release it first, or use another name"))});
    if (state() == GroupState::kReady) close_by_ = absl::InfiniteFuture();
    Reconcile(now);  // a close of ours that had to wait
  }
  return Finish();
}

void GroupProtocol::CloseIsLate(absl::Time now) {
  if (!lost_closing_.empty()) return FailToClose(now, absl::UnavailableError(lost_closing_));
  const char* const waiting = state() == GroupState::kClosing ? "its backend did not finish"
                              : drained_ ? "other ranks had not finished their work"
                                         : "this rank had not finished its work";
  FailNow(now,
          absl::DeadlineExceededError(absl::StrCat("'", id(), "' did not close in time: ", waiting,
                                                   " (seen by rank ", me(), ")")),
          Certainty::kCause);
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
  agreed_ = true;
  // A little earlier than the close is late: of a peer that does not come, the backend knows which
  // one it is.
  Do(action::Finalize{close_by_ - std::min(options_.cause_window, (close_by_ - now) / 4)});
}

}  // namespace muster

#include "muster/core/lifecycle/group_protocol.h"

#include <algorithm>
#include <utility>

#include "absl/log/check.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "muster/core/store/gather_error.h"

namespace muster {
namespace {

absl::Status Prefixed(absl::string_view prefix, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(prefix, status.message()));
}

// `error` of the gather of `key`, for those who know of groups and not of gathers: what the ranks
// that did not come to it did not do, and which timeout that was.
absl::Status InWordsOfGroups(const absl::Status& error, absl::string_view key,
                             absl::string_view did_not) {
  absl::string_view message = error.message();
  if (!absl::ConsumeSuffix(&message, DidNotComeToGather(key))) return error;
  return absl::Status(error.code(), absl::StrCat(message, " ", did_not));
}

}  // namespace

Certainty CertaintyOf(const absl::Status& backend_error) {
  return absl::IsUnavailable(backend_error) ? Certainty::kSuspicion : Certainty::kCause;
}

GroupProtocol::GroupProtocol(Options options)
    : options_(std::move(options)), scope_(GroupScope(options_.name, options_.members)) {}

std::string GroupProtocol::id() const {
  return generation() == 0 ? options_.name : absl::StrCat(options_.name, "/", generation());
}

// --- what the owner wants

Actions GroupProtocol::Start(absl::Time now) {
  if (state() != GroupState::kCreated) return Finish();  // closed or aborted before it began
  Apply(GroupEvent::kStart);
  Introduction introduction = options_.introduction;
  introduction.known_generation = std::max(introduction.known_generation, record_.generation);
  setup_by_ = std::min(now + options_.setup_timeout, options_.setup_by);
  pending_gather_ = MeetKey(scope_);
  Do(action::Meet{pending_gather_, introduction.Encode(), setup_by_});
  return Finish();
}

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
      Reconcile();
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
    Reconcile();
  }
  return Finish();
}

Actions GroupProtocol::Fail(absl::Time now, absl::Status why, Certainty certainty,
                            absl::Duration bound) {
  FailNow(now, std::move(why), certainty);
  EndWithin(now, bound);
  return Finish();
}

Actions GroupProtocol::Hurry(absl::Time now, absl::Duration bound) {
  if (state() == GroupState::kDraining || state() == GroupState::kClosing) CloseIsLate(now);
  EndWithin(now, bound);
  return Finish();
}

// --- what happened here

Actions GroupProtocol::OnConnected(absl::Time now, absl::Status result) {
  if (state() != GroupState::kConnecting) return Finish();
  if (!result.ok()) {
    FailNow(now, Prefixed(absl::StrCat("rank ", me(), " could not connect '", id(), "': "), result),
            CertaintyOf(result));
    return Finish();
  }
  Apply(GroupEvent::kConnected);
  pending_gather_ = ConnectedKey(scope_, generation());
  Do(action::Confirm{pending_gather_, setup_by_});
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
    FailNow(now, Prefixed(absl::StrCat("'", id(), "' was not closed cleanly: "), result),
            Certainty::kCause);
  }
  return Finish();
}

Actions GroupProtocol::OnReleased() {
  released_ = true;
  release_by_ = absl::InfiniteFuture();
  if (state() == GroupState::kClosing) Apply(GroupEvent::kReleased);
  EndAbortWhenDone();
  return Finish();
}

Actions GroupProtocol::OnTimer(absl::Time now) {
  woken_at_ = absl::InfiniteFuture();
  if (now >= setup_by_ + options_.cause_window) {
    // The store and the backend keep this deadline themselves; this is for one that does not.
    const char* const waits_for = state() != GroupState::kConnecting ? "to meet its peers"
                                  : pending_gather_.empty()          ? "for its backend to connect"
                                                                     : "to hear that all connected";
    FailNow(now,
            absl::DeadlineExceededError(absl::StrCat("'", id(), "' was not set up within ",
                                                     absl::FormatDuration(options_.setup_timeout),
                                                     ": rank ", me(), " waited ", waits_for)),
            Certainty::kCause);
  }
  if (now >= close_by_) {
    close_by_ = absl::InfiniteFuture();
    if (state() == GroupState::kDraining || state() == GroupState::kClosing) {
      CloseIsLate(now);
    } else if (state() == GroupState::kReady && (voting_ || want_intent_.has_value())) {
      FailNow(now,
              absl::DeadlineExceededError(
                  absl::StrCat("the replacement of '", id(), "' was not answered in time")),
              Certainty::kCause);
    }
  }
  if (now >= suspicion_until_) {
    suspicion_until_ = absl::InfiniteFuture();
    certainty_ = Certainty::kCause;
    want_cause_ = cause_.ok();
    Reconcile();
  }
  if (now >= resolve_by_) Resolve(candidate_);
  if (now >= release_by_) {
    Do(action::NameResidue{release_by_ - failed_at_});
    release_by_ = absl::InfiniteFuture();
    residue_named_ = true;
  }
  return Finish();
}

// The timeout of another rank may be shorter than ours.
std::string GroupProtocol::InSetUpTimeout() const {
  return absl::StrCat("in time (setup_timeout, ", absl::FormatDuration(options_.setup_timeout),
                      " on rank ", me(), ")");
}

// --- what the store says

Actions GroupProtocol::OnMet(absl::Time now, absl::StatusOr<GatherResult> result) {
  pending_gather_.clear();
  // Who gave up while the ranks met learns here whether they met without noticing: then they share
  // its failure.
  const bool gave_up = state() == GroupState::kAborting && cause_.ok();
  if (gave_up && !result.ok()) Resolve(candidate_);
  if (state() != GroupState::kRendezvous && (!gave_up || !cause_.ok())) return Finish();
  if (!result.ok()) {
    FailNow(
        now,
        Prefixed(absl::StrCat("the ranks of '", options_.name, "' did not meet: "),
                 InWordsOfGroups(result.status(), MeetKey(scope_),
                                 absl::StrCat("did not call Acquire for it ", InSetUpTimeout()))),
        Certainty::kCause);
    return Finish();
  }
  std::vector<Introduction> introductions;
  for (const std::string& value : result->values) {
    absl::StatusOr<Introduction> introduction = Introduction::Decode(value);
    if (!introduction.ok()) {
      FailNow(now, introduction.status(), Certainty::kCause);
      Resolve(candidate_);
      return Finish();
    }
    introductions.push_back(*std::move(introduction));
  }
  absl::StatusOr<Agreement> agreement = Agree(options_.name, introductions, options_.members);
  if (!agreement.ok()) {
    FailNow(now, agreement.status(), Certainty::kCause);
    Resolve(candidate_);  // the others come to the same result by themselves
    return Finish();
  }
  agreement_ = *std::move(agreement);
  Apply(GroupEvent::kPeersMet);
  want_connect_ = state() == GroupState::kConnecting;
  want_live_ = want_connect_ && options_.rank == 0;
  if (gave_up) {
    want_cause_ = true;
    ExcuseSuccessor();
  }
  HandleRecord(now);
  Reconcile();
  return Finish();
}

Actions GroupProtocol::OnAllConnected(absl::Time now, absl::StatusOr<GatherResult> result) {
  pending_gather_.clear();
  if (state() != GroupState::kConnecting) return Finish();
  if (!result.ok()) {
    // A peer that withdrew or was lost has a cause of its own, which is on its way.
    FailNow(now,
            Prefixed(absl::StrCat("the ranks of '", id(), "' did not all connect: "),
                     InWordsOfGroups(result.status(), ConnectedKey(scope_, generation()),
                                     absl::StrCat("did not connect ", InSetUpTimeout()))),
            absl::IsDeadlineExceeded(result.status()) ? Certainty::kCause : Certainty::kSuspicion);
    return Finish();
  }
  setup_by_ = absl::InfiniteFuture();
  Apply(GroupEvent::kAllConnected);
  HandleIntent(now);  // a fast peer may be closing already
  return Finish();
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
    Reconcile();  // a close of ours that had to wait
  }
  return Finish();
}

Actions GroupProtocol::OnSession(absl::Time now, const SessionRecord& session) {
  const int member = Member(session.rank);
  if (member < 0 || member == options_.rank) return Finish();
  const bool alive = session.liveness == SessionRecord::Liveness::kLive;
  switch (state()) {
    case GroupState::kRendezvous:
      // Nobody knows yet which incarnation will come. One that died will not, nor one whose process
      // ends; else one that left in good order may be the last pool of a process that is about to
      // come with its next one.
      if (session.liveness == SessionRecord::Liveness::kLost) {
        lost_peer_ = session;
        FailNow(now, absl::UnavailableError(session.WhatHappened()), Certainty::kCause);
      } else if (!alive && TellsOfAProcessEnd(session.reason)) {
        lost_peer_ = session;
        FailNow(now, absl::UnavailableError(session.reason), Certainty::kCause);
      }
      break;
    case GroupState::kConnecting:
    case GroupState::kReady:
    case GroupState::kDraining:
    case GroupState::kAborting: {
      if (generation() == 0) break;
      const bool same = session.incarnation == agreement_.incarnations[member];
      if (same && alive) break;
      FailNow(now,
              absl::UnavailableError(
                  same ? session.WhatHappened()
                       : absl::StrCat("rank ", session.rank,
                                      " was lost: another process took its place (host ",
                                      session.host, ", pid ", session.pid, ")")),
              Certainty::kCause);
      break;
    }
    default:  // after the agreement to close peers come and go as they like
      break;
  }
  return Finish();
}

Actions GroupProtocol::OnStoreLost(absl::Time now, const absl::Status& why) {
  store_lost_ = true;
  pending_gather_.clear();
  if (state() != GroupState::kCreated && state() != GroupState::kClosing && !IsTerminal(state())) {
    FailNow(now, why, Certainty::kCause);
    Resolve(candidate_);
  }
  return Finish();
}

// --- inside

int GroupProtocol::Member(int in_job) const {
  if (options_.members.empty()) return in_job < options_.size ? in_job : -1;
  const auto found = std::find(options_.members.begin(), options_.members.end(), in_job);
  return found == options_.members.end() ? -1 : static_cast<int>(found - options_.members.begin());
}

void GroupProtocol::Apply(GroupEvent event) {
  const GroupState from = state();
  absl::StatusOr<bool> moved = machine_.Apply(event);
  // The inputs above filter by state, so a refusal is a mistake in this file; the table test and
  // the simulator look for it.
  CHECK_OK(moved) << "'" << id() << "'";
  if (*moved) Do(action::Enter{from, event, state()});
}

Actions GroupProtocol::Finish() {
  absl::Time wake = std::min({close_by_, suspicion_until_, resolve_by_, release_by_});
  if (setup_by_ != absl::InfiniteFuture()) wake = std::min(wake, setup_by_ + options_.cause_window);
  if (IsTerminal(state())) wake = absl::InfiniteFuture();
  if (wake != woken_at_) {
    woken_at_ = wake;
    Do(action::WakeAt{wake});
  }
  return std::exchange(actions_, {});
}

void GroupProtocol::FailNow(absl::Time now, absl::Status why, Certainty certainty) {
  if (IsTerminal(state())) return;
  // What is written as OK tells nobody of a failure, so it would be written for ever.
  if (why.ok()) why = absl::InternalError(absl::StrCat("rank ", me(), " gave no cause"));
  if (state() == GroupState::kAborting) {
    // A cause that comes while a suspicion is held takes its place.
    if (!cause_.ok() || certainty_ == Certainty::kCause || certainty == Certainty::kSuspicion) {
      return;
    }
    candidate_ = std::move(why);
    found_here_ = !recorded_;
    certainty_ = Certainty::kCause;
    suspicion_until_ = absl::InfiniteFuture();
    want_cause_ = true;
    Reconcile();
    return;
  }
  const GroupState failed_in = state();
  candidate_ = std::move(why);
  found_here_ = !recorded_;
  certainty_ = certainty;
  setup_by_ = close_by_ = absl::InfiniteFuture();
  want_live_ = want_connect_ = false;
  want_intent_.reset();
  Apply(GroupEvent::kFailed);
  failed_at_ = now;
  release_by_ = released_ ? absl::InfiniteFuture() : now + options_.close_timeout;
  TellOfFailure(now, failed_in);
  // After the news is on its way: cutting many connections takes time, and what the peers see of it
  // is a suspicion that must not be written before the cause.
  Do(action::AbortBackend{candidate_});
}

void GroupProtocol::CloseIsLate(absl::Time now) {
  const char* const waiting = state() == GroupState::kClosing ? "its backend did not finish"
                              : drained_ ? "other ranks had not finished their work"
                                         : "this rank had not finished its work";
  FailNow(now,
          absl::DeadlineExceededError(absl::StrCat("'", id(), "' did not close in time: ", waiting,
                                                   " (seen by rank ", me(), ")")),
          Certainty::kCause);
}

void GroupProtocol::EndWithin(absl::Time now, absl::Duration bound) {
  if (state() != GroupState::kAborting) return;
  if (!released_ && !residue_named_) release_by_ = std::min(release_by_, now + bound);
  if (cause_.ok()) resolve_by_ = std::min(resolve_by_, now + options_.cause_window + bound);
}

void GroupProtocol::TellOfFailure(absl::Time now, GroupState failed_in) {
  // Without a generation nobody else shares the failure, and after the agreement to close it is
  // this rank's alone.
  const bool meeting = generation() == 0 && !pending_gather_.empty();
  if ((generation() == 0 && !meeting) || failed_in == GroupState::kClosing || store_lost_) {
    Resolve(candidate_);
    return;
  }
  resolve_by_ = now + options_.cause_window + options_.close_timeout;
  if (meeting) {  // its answer tells whether the others have met all the same
    Withdraw();
    return;
  }
  if (certainty_ == Certainty::kSuspicion) {
    suspicion_until_ = now + options_.cause_window;
  } else {
    want_cause_ = true;
    Reconcile();
  }
}

void GroupProtocol::Resolve(absl::Status cause) {
  if (!cause_.ok() || state() != GroupState::kAborting) return;
  cause_ = std::move(cause);
  want_cause_ = false;
  suspicion_until_ = resolve_by_ = absl::InfiniteFuture();
  Do(action::CauseResolved{cause_, OwnError()});
  Withdraw();
  pending_gather_.clear();
  EndAbortWhenDone();
}

void GroupProtocol::Withdraw() {
  if (pending_gather_.empty() || withdrawn_) return;
  withdrawn_ = true;
  Do(action::Withdraw{pending_gather_, std::string((cause_.ok() ? candidate_ : cause_).message())});
}

void GroupProtocol::EndAbortWhenDone() {
  if (state() == GroupState::kAborting && released_ && !cause_.ok()) Apply(GroupEvent::kReleased);
}

}  // namespace muster

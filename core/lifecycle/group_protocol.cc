#include "muster/core/lifecycle/group_protocol.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "absl/strings/str_cat.h"
#include "muster/core/lifecycle/in_words_of_groups.h"
#include "muster/core/lifecycle/process_end.h"

namespace muster {

using lifecycle_internal::InWordsOfGroups;
using lifecycle_internal::Prefixed;

namespace {

// Nobody knows during the meeting which incarnation of a rank will come. One that died will not,
// nor one whose process ends: how it ended. Else "": one that left in good order may be the last
// pool of a process that is about to come with its next one.
std::string EndOfProcess(const SessionRecord& session) {
  const bool left = session.liveness == SessionRecord::Liveness::kLeft;
  if (left && SaysThatItsProcessEnds(session.reason, session.Who())) return session.reason;
  return session.liveness == SessionRecord::Liveness::kLost ? session.WhatHappened() : "";
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
    waits_for_names_ = state() == GroupState::kRendezvous;
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
    Reconcile(now);
  }
  if (now >= resolve_by_) ResolveUnlessAnswered(now);
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

absl::Status GroupProtocol::DidNotMeet(const absl::Status& gathered) const {
  return Prefixed(absl::StrCat("the ranks of '", options_.name, "' did not meet: "),
                  InWordsOfGroups(gathered, MeetKey(scope_),
                                  absl::StrCat("did not call Acquire for it ", InSetUpTimeout())));
}

// --- what the store says

Actions GroupProtocol::OnMet(absl::Time now, absl::StatusOr<GatherResult> result) {
  pending_gather_.clear();
  // Who gave up while the ranks met learns here whether they met without noticing: then they share
  // its failure.
  const bool gave_up = state() == GroupState::kAborting && cause_.ok();
  if (gave_up && !result.ok()) {
    // Who gave up because the store did not say in time who is missing still says it.
    if (waits_for_names_ && absl::IsDeadlineExceeded(result.status())) {
      candidate_ = DidNotMeet(result.status());
    }
    Resolve(candidate_);
  }
  if (state() != GroupState::kRendezvous && (!gave_up || !cause_.ok())) return Finish();
  if (!result.ok()) {
    FailNow(now, DidNotMeet(result.status()), Certainty::kCause);
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
  Reconcile(now);
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

Actions GroupProtocol::OnSession(absl::Time now, const SessionRecord& session) {
  const int member = Member(session.rank);
  if (member < 0 || member == options_.rank) return Finish();
  const bool alive = session.liveness == SessionRecord::Liveness::kLive;
  if (agreed_) {
    OnSessionOfClosed(now, session);
    return Finish();
  }
  switch (state()) {
    case GroupState::kRendezvous:
      if (std::string end = EndOfProcess(session); !end.empty()) {
        gave_up_for_ = session;
        FailNow(now, absl::UnavailableError(std::move(end)), Certainty::kCause);
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
    default:
      break;
  }
  return Finish();
}

// Peers come and go as they like then. But one that is gone without a goodbye may be why the
// backend does not finish.
void GroupProtocol::OnSessionOfClosed(absl::Time now, const SessionRecord& session) {
  if (session.incarnation != agreement_.incarnations[Member(session.rank)]) return;
  const std::string end = EndOfProcess(session);
  if (end.empty()) return;
  if (lost_closing_.empty()) lost_closing_ = end;
  if (state() == GroupState::kAborting) FailToClose(now, absl::UnavailableError(end));
}

Actions GroupProtocol::OnStoreLost(absl::Time now, const absl::Status& why) {
  store_lost_ = true;
  pending_gather_.clear();
  if (agreed_) {
    Resolve(candidate_);  // nobody will say more
  } else if (state() != GroupState::kCreated && !IsTerminal(state())) {
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
    Reconcile(now);
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

void GroupProtocol::EndWithin(absl::Time now, absl::Duration bound) {
  if (state() != GroupState::kAborting) return;
  if (!released_ && !residue_named_) release_by_ = std::min(release_by_, now + bound);
  if (!cause_.ok()) return;
  absl::Time by = now + bound;
  if (certainty_ == Certainty::kSuspicion) by = std::max(by, suspicion_until_);
  resolve_by_ = std::min(resolve_by_, by);
  resolve_at_last_ = std::min(resolve_at_last_, now + options_.cause_window + bound);
}

void GroupProtocol::TellOfFailure(absl::Time now, GroupState failed_in) {
  // Without a generation nobody else shares the failure, and after the agreement to close it is
  // this rank's alone.
  const bool meeting = generation() == 0 && !pending_gather_.empty();
  const bool alone = failed_in == GroupState::kClosing && certainty_ == Certainty::kCause;
  if ((generation() == 0 && !meeting) || alone || store_lost_) {
    Resolve(candidate_);
    return;
  }
  resolve_at_last_ = now + options_.cause_window + options_.close_timeout;
  resolve_by_ = now + std::max(options_.cause_window, options_.close_timeout);
  if (meeting) {  // its answer tells whether the others have met all the same
    Withdraw();
    return;
  }
  if (certainty_ == Certainty::kSuspicion) {
    suspicion_until_ = now + options_.cause_window;
  } else {
    want_cause_ = true;
    Reconcile(now);
  }
}

// The store has had its time to say what the cause is. But a write that has just begun may still be
// answered; and who was stopped, as a late alarm tells, has news that it has not read yet.
void GroupProtocol::ResolveUnlessAnswered(absl::Time now) {
  const absl::Duration late = now - resolve_by_;
  resolve_by_ = writing_cause_ ? written_at_ + options_.cause_window : now;
  if (late > options_.cause_window / 4) {
    resolve_by_ = now + options_.cause_window;
    resolve_at_last_ += late;
  }
  resolve_by_ = std::min(resolve_by_, resolve_at_last_);
  if (now >= resolve_by_) Resolve(candidate_);
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

void GroupProtocol::ExcuseSuccessor() {
  if (!gave_up_for_.has_value()) return;
  const int rank = gave_up_for_->rank;
  const int member = Member(rank);
  if (agreement_.incarnations[static_cast<size_t>(member)] == gave_up_for_->incarnation) return;
  candidate_ = absl::UnavailableError(
      absl::StrCat("'", id(), "' was given up by rank ", me(),
                   ", which did not know yet that another process had taken the place of rank ",
                   rank, ": ", candidate_.message()));
}

void GroupProtocol::EndAbortWhenDone() {
  if (state() == GroupState::kAborting && released_ && !cause_.ok()) Apply(GroupEvent::kReleased);
}

}  // namespace muster

#include "muster/core/lifecycle/transition_table.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr Transition To(GroupState next) { return {Transition::Kind::kMove, next, ""}; }
constexpr Transition Ignore() { return {Transition::Kind::kIgnore, GroupState::kCreated, ""}; }
constexpr Transition Refuse(const char* message) {
  return {Transition::Kind::kRefuse, GroupState::kCreated, message};
}

constexpr GroupState kRendezvous = GroupState::kRendezvous;
constexpr GroupState kConnecting = GroupState::kConnecting;
constexpr GroupState kReady = GroupState::kReady;
constexpr GroupState kDraining = GroupState::kDraining;
constexpr GroupState kClosing = GroupState::kClosing;
constexpr GroupState kDestroyed = GroupState::kDestroyed;
constexpr GroupState kAborting = GroupState::kAborting;
constexpr GroupState kAborted = GroupState::kAborted;

constexpr char kStarted[] = "it was started already";
constexpr char kNotStarted[] = "it was not started";
constexpr char kNotMet[] = "its ranks have not met";
constexpr char kNotReady[] = "it is not ready; abort it instead";
constexpr char kIsReady[] = "it is ready already";
constexpr char kNotClosing[] = "nobody closes it";
constexpr char kNotDrained[] = "its work in flight has not finished";
constexpr char kNotAgreed[] = "its ranks have not agreed to close";
constexpr char kHolds[] = "its backend is in use";
constexpr char kEnded[] = "it has ended";

// Rows: states in the order of GroupState. Columns: events in the order of GroupEvent.
constexpr Transition kTable[kGroupStateCount][kGroupEventCount] = {
    // clang-format off
    // start            peers met            connected            all connected      close requested
    // drained          close agreed         finalized            failed             released
    /* created */
    {To(kRendezvous),   Refuse(kNotStarted), Refuse(kNotStarted), Refuse(kNotStarted), To(kDestroyed),
     Refuse(kNotStarted), Refuse(kNotStarted), Refuse(kNotStarted), To(kAborting), Refuse(kNotStarted)},
    /* rendezvous */
    {Refuse(kStarted),  To(kConnecting),     Refuse(kNotMet),     Refuse(kNotMet),   Refuse(kNotReady),
     Refuse(kNotReady), Refuse(kNotReady),   Refuse(kNotReady),   To(kAborting),     Refuse(kNotReady)},
    /* connecting */
    {Refuse(kStarted),  Refuse(kStarted),    To(kConnecting),     To(kReady),        Refuse(kNotReady),
     Refuse(kNotReady), Refuse(kNotReady),   Refuse(kNotReady),   To(kAborting),     Refuse(kHolds)},
    /* ready */
    {Refuse(kStarted),  Refuse(kIsReady),    Refuse(kIsReady),    Refuse(kIsReady),  To(kDraining),
     Refuse(kNotClosing), Refuse(kNotClosing), Refuse(kNotClosing), To(kAborting),   Refuse(kHolds)},
    /* draining */
    {Refuse(kStarted),  Refuse(kIsReady),    Refuse(kIsReady),    Refuse(kIsReady),  Ignore(),
     To(kDraining),     To(kClosing),        Refuse(kNotAgreed),  To(kAborting),     Refuse(kNotDrained)},
    /* closing */
    {Refuse(kStarted),  Refuse(kIsReady),    Refuse(kIsReady),    Refuse(kIsReady),  Ignore(),
     Ignore(),          Ignore(),            To(kClosing),        To(kAborting),     To(kDestroyed)},
    /* destroyed */
    {Refuse(kEnded),    Ignore(),            Ignore(),            Ignore(),          Ignore(),
     Ignore(),          Ignore(),            Ignore(),            Ignore(),          Ignore()},
    /* aborting */
    {Refuse(kEnded),    Ignore(),            Ignore(),            Ignore(),          Ignore(),
     Ignore(),          Ignore(),            Ignore(),            Ignore(),          To(kAborted)},
    /* aborted */
    {Refuse(kEnded),    Ignore(),            Ignore(),            Ignore(),          Ignore(),
     Ignore(),          Ignore(),            Ignore(),            Ignore(),          Ignore()},
    // clang-format on
};

}  // namespace

const Transition& LookUp(GroupState state, GroupEvent event) {
  return kTable[static_cast<int>(state)][static_cast<int>(event)];
}

absl::StatusOr<bool> StateMachine::Apply(GroupEvent event) {
  const Transition& transition = LookUp(state_, event);
  switch (transition.kind) {
    case Transition::Kind::kMove:
      state_ = transition.next;
      return true;
    case Transition::Kind::kIgnore:
      return false;
    case Transition::Kind::kRefuse:
      break;
  }
  return absl::FailedPreconditionError(absl::StrCat("'", Name(event),
                                                    "' cannot happen to a group that is ",
                                                    Name(state_), ": ", transition.message));
}

}  // namespace muster

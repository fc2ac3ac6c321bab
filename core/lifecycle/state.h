// The states of a group on one rank, and the events that move it: docs/lifecycle.md.
#ifndef MUSTER_CORE_LIFECYCLE_STATE_H_
#define MUSTER_CORE_LIFECYCLE_STATE_H_

#include "absl/strings/string_view.h"

namespace muster {

enum class GroupState {
  kCreated,     // spec validated; holds nothing
  kRendezvous,  // meeting the peers: who is who, same spec, same generation
  kConnecting,  // the backend builds its communicator, here and on the others
  kReady,       // all ranks are connected; collectives are accepted
  kDraining,    // somebody closes: new work is refused, work in flight finishes
  kClosing,     // the ranks have agreed to close; the backend is finalized
  kDestroyed,   // terminal, clean
  kAborting,    // a failure or an abort: work in flight is cancelled, transports are cut
  kAborted,     // terminal, with the cause
};
inline constexpr int kGroupStateCount = 9;

enum class GroupEvent {
  kStart,
  kPeersMet,
  kConnected,  // here
  kAllConnected,
  kCloseRequested,  // here or by a peer
  kDrained,         // here
  kCloseAgreed,     // by all
  kFinalized,
  kFailed,
  kReleased,  // the backend holds nothing
};
inline constexpr int kGroupEventCount = 10;

absl::string_view Name(GroupState state);  // "ready"
absl::string_view Name(GroupEvent event);  // "close requested"

inline constexpr bool IsTerminal(GroupState state) {
  return state == GroupState::kDestroyed || state == GroupState::kAborted;
}

// On the way to a terminal state, from which it does not come back.
inline constexpr bool IsEnding(GroupState state) {
  return state == GroupState::kDraining || state == GroupState::kClosing ||
         state == GroupState::kAborting;
}

}  // namespace muster

#endif  // MUSTER_CORE_LIFECYCLE_STATE_H_

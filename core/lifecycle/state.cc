#include "muster/core/lifecycle/state.h"

namespace muster {

absl::string_view Name(GroupState state) {
  switch (state) {
    case GroupState::kCreated:
      return "created";
    case GroupState::kRendezvous:
      return "rendezvous";
    case GroupState::kConnecting:
      return "connecting";
    case GroupState::kReady:
      return "ready";
    case GroupState::kDraining:
      return "draining";
    case GroupState::kClosing:
      return "closing";
    case GroupState::kDestroyed:
      return "destroyed";
    case GroupState::kAborting:
      return "aborting";
    case GroupState::kAborted:
      return "aborted";
  }
  return "unknown state";
}

absl::string_view Name(GroupEvent event) {
  switch (event) {
    case GroupEvent::kStart:
      return "start";
    case GroupEvent::kPeersMet:
      return "peers met";
    case GroupEvent::kConnected:
      return "connected";
    case GroupEvent::kAllConnected:
      return "all connected";
    case GroupEvent::kCloseRequested:
      return "close requested";
    case GroupEvent::kDrained:
      return "drained";
    case GroupEvent::kCloseAgreed:
      return "close agreed";
    case GroupEvent::kFinalized:
      return "finalized";
    case GroupEvent::kFailed:
      return "failed";
    case GroupEvent::kReleased:
      return "released";
  }
  return "unknown event";
}

}  // namespace muster

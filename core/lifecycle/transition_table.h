// What every event does in every state: the one place where a group's state changes.
//
//   StateMachine machine;                                    // created
//   absl::StatusOr<bool> moved = machine.Apply(GroupEvent::kStart);   // rendezvous
//
// The table is data and it is complete: each of the states x events cells is a move, an ignored
// event (news that came late) or a refusal with the message that its caller gets.
#ifndef MUSTER_CORE_LIFECYCLE_TRANSITION_TABLE_H_
#define MUSTER_CORE_LIFECYCLE_TRANSITION_TABLE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/lifecycle/state.h"

namespace muster {

struct Transition {
  enum class Kind {
    kMove,    // to `next`, which may be the same state
    kIgnore,  // late or repeated news: nothing to do
    kRefuse,  // a misuse: `message` says why
  };
  Kind kind = Kind::kRefuse;
  GroupState next = GroupState::kCreated;
  absl::string_view message;
};

const Transition& LookUp(GroupState state, GroupEvent event);

// A state and the table. Not thread-safe.
class StateMachine {
 public:
  GroupState state() const { return state_; }

  // true: moved (possibly to the same state). false: ignored. FailedPrecondition: refused; the
  // message names state and event.
  absl::StatusOr<bool> Apply(GroupEvent event);

 private:
  GroupState state_ = GroupState::kCreated;
};

}  // namespace muster

#endif  // MUSTER_CORE_LIFECYCLE_TRANSITION_TABLE_H_

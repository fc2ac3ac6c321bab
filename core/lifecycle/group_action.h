// What a GroupProtocol asks its surroundings to do, each with the input that answers it.
#ifndef MUSTER_CORE_LIFECYCLE_GROUP_ACTION_H_
#define MUSTER_CORE_LIFECYCLE_GROUP_ACTION_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/agreement.h"
#include "muster/core/lifecycle/group_record.h"
#include "muster/core/lifecycle/state.h"
#include "muster/core/store/store.h"

namespace muster {

namespace action {
// Gather in the store; answer with OnMet, OnAllConnected, OnVotes.
struct Meet {
  std::string key;
  std::string value;
  absl::Time deadline;
};
struct Confirm {
  std::string key;
  absl::Time deadline;
};
struct Vote {
  std::string key;
  std::string value;
  absl::Time deadline;
};
// Take back the contribution to the gather `key`, if it still waits. The gather's own answer still
// has to be given.
struct Withdraw {
  std::string key;
  std::string reason;
};
// Compare-and-set the group's record; answer with OnRecordWritten.
struct WriteRecord {
  Revision expected = 0;
  GroupRecord record;
};
// Build the communicator; answer with OnConnected.
struct Connect {
  Agreement agreement;
  absl::Time deadline;
};
// Refuse collectives beyond number `sequence`; replaces an earlier Drain, but never lets in what
// was refused before. Answer with OnDrained once none is in flight and that one is done, or with
// Fail when one beyond it is in flight.
struct Drain {
  int64_t sequence = 0;
  std::string closed_by;  // "rank 0 closed after #41"
};
// Somebody wants to replace the group; answer with OnHolders.
struct AskHolders {};
// Finalize the communicator; answer with OnFinalized, and with OnReleased when it is gone.
struct Finalize {
  absl::Time deadline;
};
// Cancel Connect, abort the communicator, whichever there is; answer with OnReleased when nothing
// is held (at once when nothing was).
struct AbortBackend {
  absl::Status cause;
};
// The backend did not give back what it holds in time: write down what is left, and answer with
// OnReleased.
struct NameResidue {
  absl::Duration within;  // the time it had
};
// Call OnTimer at `when`; replaces the earlier one. InfiniteFuture: not at all.
struct WakeAt {
  absl::Time when;
};
// A transition, to be observed.
struct Enter {
  GroupState from;
  GroupEvent event;
  GroupState to;
};
// The cause of the failure is now known for good: failed calls may return it.
struct CauseResolved {
  absl::Status cause;
  // It is this rank's own error: the cause blames this rank, or nobody, and then this rank found it
  // and it is no suspicion and no loss.
  bool own = false;
};
// The proposal to replace the group was refused (why). An accepted one ends with the group.
struct ProposalRefused {
  absl::Status why;
};
}  // namespace action

using Action =
    std::variant<action::Meet, action::Confirm, action::Vote, action::Withdraw, action::WriteRecord,
                 action::Connect, action::Drain, action::AskHolders, action::Finalize,
                 action::AbortBackend, action::NameResidue, action::WakeAt, action::Enter,
                 action::CauseResolved, action::ProposalRefused>;
using Actions = std::vector<Action>;

}  // namespace muster

#endif  // MUSTER_CORE_LIFECYCLE_GROUP_ACTION_H_

// What can go wrong in a simulated run, or is done at a moment when nobody expects it.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_FAULT_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_FAULT_H_

#include "absl/strings/string_view.h"

namespace muster::simulation {

enum class Fault {
  // A rank's process.
  kCrash,        // SIGKILL: its connection closes soon
  kHostGone,     // its host has no power: only its silence tells
  kExit,         // leaves the store in good order, the group in none
  kRestart,      // the same rank, another incarnation
  kStop,         // SIGSTOP, SIGCONT
  kSlowRank,     // whatever it does it does late
  kClockJump,    // its clock leaps ahead, as after the pause of a virtual machine
  kCutOff,       // it loses the store
  kSessionLoss,  // declared lost though it lives: fenced
  // The store.
  kStoreLoss,   // ends with all that it knew; the next one is empty
  kStorePause,  // for less time than a message may take
  kLongStorePause,
  kHeldNews,     // what a watch tells comes late
  kHeldMessage,  // any message comes later than the protocol's bounds
  // The backend, at each step.
  kConnectFails,
  kConnectTimesOut,
  kConnectSilent,  // never answers, whatever the deadline
  kConnectSlow,
  kWorkFails,        // this rank's own error
  kTransportBreaks,  // a suspicion, though all ranks live
  kWorkSilent,
  kFinalizeFails,
  kFinalizeSilent,
  kFinalizeSlow,
  kAbortSilent,
  kAbortSlow,
  // The owner and its program.
  kRefusal,        // this rank cannot take part
  kOtherIdentity,  // it asks for another backend than the others
  kOtherOrder,     // of the names that it acquires
  kStuck,          // in user code: it never comes to the next collective
  kEarlyEnd,       // closed or aborted before it began
  kAbort,
  kClose,
  kHurry,        // a pool's end that has no more time
  kSlowHolders,  // the pool's answer who holds the group
};
inline constexpr int kFaultCount = static_cast<int>(Fault::kSlowHolders) + 1;

absl::string_view Name(Fault fault);  // "crash"

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_FAULT_H_

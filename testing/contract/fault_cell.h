// What goes wrong, when, to whom, and what the others must learn of it: the fault matrix as data.
//
//   for (const FaultCell& cell : FaultMatrix()) {
//     if (const std::string why = WhyNoSense(cell); !why.empty()) ...;
//     const FaultExpectation expected = Expect(cell);
//   }
//
// A group of N ranks is brought into a phase; then something happens to one of them, its victim.
// The two sizes take the same fault by two ways where there are two (fault_rank.cc).
#ifndef MUSTER_TESTING_CONTRACT_FAULT_CELL_H_
#define MUSTER_TESTING_CONTRACT_FAULT_CELL_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::testing {

enum class Fault {
  kKill,          // SIGKILL
  kStop,          // SIGSTOP; continued when the others have ended
  kNeverStarted,  // its process never joins the job
  kExit,          // exit(0), and with four ranks _exit(0)
  kThrow,         // nobody catches it; with four ranks main does, where it holds the lease
  kStuck,         // in user code: heartbeats go on
  kPartition,     // no packet comes or goes
  // Not in the matrix. They do no harm: the ranks go on and close.
  kShortStop,      // for less than heartbeat_timeout
  kShortCut,       // a partition of the same length
  kLongStop,       // with an infinite heartbeat_timeout
  kStorePaused,    // SIGSTOP of the process that serves the store, for longer than it
  kDataPartition,  // ranks do not reach each other and do reach the store
};

enum class Phase {
  kRendezvous,  // the others wait for the victim; with four ranks it waits with two for the last
  kConnecting,  // the victim is at the first step of Connect; with four ranks at its last
  kReady,       // nobody does anything
  kCollective,  // in an all-reduce, the victim before its first step; with four ranks in its middle
  kDraining,    // an all-reduce is in flight; the victim closed, with four ranks another
  kClosing,     // all have agreed; the victim is in Finalize
  kWorking,     // not in the matrix: all-reduces in a loop
};

// A mistake made on purpose, which the verdict must notice.
enum class Planted {
  kNothing,
  kDetectionOff,  // no heartbeats, so nobody learns of a stop: a survivor hangs
  kWrongBlame,    // rank 0 fails first, with a cause of its own
  kLeakedFd,      // rank 0 opens a file and does not close it
  kLeakedThread,
  kLeakedProcess,
  kRollbackSkipped,  // MUSTER_FAULTS: what a failed set-up made is not undone
};

// A value type.
struct FaultCell {
  Fault fault = Fault::kKill;
  Phase phase = Phase::kReady;
  std::string backend = "reference";
  int n = 2;
  Planted planted = Planted::kNothing;

  int victim() const { return n / 2; }
  // Takes no part in what is in flight, so that it cannot finish: the last of four.
  std::optional<int> outsider() const;
  // Never begins the group.
  std::optional<int> latecomer() const;
  bool harmless() const { return fault > Fault::kPartition && fault != Fault::kDataPartition; }
  bool needs_network() const;

  std::string Name() const;  // "kill_ready_gloo_4", for tests
  static std::optional<FaultCell> Parse(absl::string_view name);
};

absl::string_view Name(Fault fault);
absl::string_view Name(Phase phase);

// Every cell of the matrix, in the order of the issue that asked for it.
std::vector<FaultCell> FaultMatrix();

// Why this cell cannot be; "" when it can.
std::string WhyNoSense(const FaultCell& cell);

// The timeouts that a cell's ranks use: short where they are what ends it.
struct FaultTimeouts {
  absl::Duration heartbeat = absl::Seconds(2);
  absl::Duration setup = absl::Seconds(30);
  absl::Duration operation = absl::Seconds(30);
  absl::Duration close = absl::Seconds(5);
  // A launcher that has no processor for a moment is not overtaken by a suspicion.
  absl::Duration cause_window = absl::Seconds(2);
  absl::Duration disturbance;  // how long a harmless one lasts
};
FaultTimeouts TimeoutsOf(const FaultCell& cell);

// What the survivors must see.
struct FaultExpectation {
  std::string cause;            // a regular expression, found in how each ended
  bool may_end_clean = false;   // once all have agreed to close, a rank may end as it likes
  bool must_end_clean = false;  // nobody needs the victim
  absl::Duration known;         // L4: until the last survivor knows
  absl::Duration terminal;      // L1: until the last survivor's group has ended
};
FaultExpectation Expect(const FaultCell& cell);

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_FAULT_CELL_H_

// What one simulated run is like: everything follows from what the chooser chooses.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_SCENARIO_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_SCENARIO_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/simulation/chooser.h"

namespace muster::simulation {

// Ways to break what the protocol relies on (see group_protocol.h): they are made in the imitations
// of what surrounds it. The invariants must notice each. Mistakes in the real code are planted in
// it: protocol_mutations.txt.
enum class Mutation {
  kNone,
  kDropWithdraw,       // a contribution is not taken back
  kReorderNews,        // answers and news overtake each other
  kBlindWrites,        // a compare-and-set ignores what it expects
  kForgetGenerations,  // a group starts without knowing what came before
  kDropNews,           // some changes of the record are not told
  kLoseAlarms,         // WakeAt is not always heeded
  kReviveWork,         // a collective is let in whatever the state
};
inline constexpr Mutation kAllMutations[] = {
    Mutation::kDropWithdraw,      Mutation::kReorderNews, Mutation::kBlindWrites,
    Mutation::kForgetGenerations, Mutation::kDropNews,    Mutation::kLoseAlarms,
    Mutation::kReviveWork,
};
absl::string_view Name(Mutation mutation);  // "drop_withdraw"
// Which promise it breaks, and words of the check that sees it: "L3: was let in".
absl::string_view Breaks(Mutation mutation);

struct Scenario {
  int size = 2;
  // How many groups each rank wants, under names of their own.
  int names = 1;
  // How often it makes them anew before all is well; then as often as it takes.
  int rounds = 1 << 20;
  // The explorer of all schedules says what happens and when: trouble has no probability.
  bool chosen = false;
  int work = -1;       // collectives of a generation; -1: differs
  bool closes = true;  // with `chosen`: owners close; else they let go and want another group
  // Messages may take longer than the protocol's bounds: then ranks need not agree on the cause,
  // and all else still holds.
  bool rough = false;
  // How much goes wrong until `chaos`, in percent of the usual.
  int trouble = 100;
  absl::Duration chaos = absl::Seconds(3);

  absl::Duration setup_timeout = absl::Seconds(1);
  absl::Duration operation_timeout = absl::Milliseconds(500);
  absl::Duration close_timeout = absl::Milliseconds(300);
  absl::Duration cause_window = absl::Milliseconds(100);
  absl::Duration heartbeat_timeout = absl::Milliseconds(800);
  absl::Duration loss_grace = absl::ZeroDuration();

  absl::Duration max_delay = absl::Milliseconds(5);  // of a message, unless it is held up
  bool even = false;                                 // every message takes max_delay
  // What may be added to it, in the scenarios that know these faults.
  absl::Duration slowness;     // a step of a slow rank
  absl::Duration held_news;    // of the store
  absl::Duration store_pause;  // a short one

  // At most from the moment that one rank says something until another one has acted on it.
  absl::Duration latency() const { return max_delay + slowness + held_news + store_pause; }

  // A process that is stopped for no longer than that is missed by nobody.
  absl::Duration harmless_stop() const { return heartbeat_timeout * 7 / 10; }

  // `size`: 0 for any.
  static Scenario From(Chooser& chooser, int size);
};

// "train", and what else a rank acquires.
std::vector<std::string> GroupNames(const Scenario& scenario);

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_SCENARIO_H_

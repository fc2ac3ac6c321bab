// What one simulated run is like: everything follows from its seed.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_SCENARIO_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_SCENARIO_H_

#include <cstdint>
#include <random>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::simulation {

// The same numbers on every machine and standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  // 0 <= result < limit
  uint64_t Below(uint64_t limit) { return engine_() % limit; }
  bool Chance(int percent) { return Below(100) < static_cast<uint64_t>(percent); }
  // Below a percent.
  bool PerMille(int share) { return Below(1000) < static_cast<uint64_t>(share); }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return low + absl::Microseconds(Below(absl::ToInt64Microseconds(high - low) + 1));
  }

 private:
  std::mt19937_64 engine_;
};

// Ways to break what the protocol relies on (see group_protocol.h). The invariants must notice
// each.
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
absl::string_view Name(Mutation mutation);

struct Scenario {
  int size = 2;
  // Messages may take longer than the protocol's bounds: then ranks need not agree on the cause,
  // and all else still holds.
  bool rough = false;
  // How much goes wrong until `chaos`, in percent of the usual.
  int trouble = 100;
  absl::Duration chaos = absl::Seconds(3);

  absl::Duration setup_timeout = absl::Seconds(1);
  absl::Duration close_timeout = absl::Milliseconds(300);
  absl::Duration cause_window = absl::Milliseconds(100);
  absl::Duration heartbeat_timeout = absl::Milliseconds(800);
  absl::Duration loss_grace = absl::ZeroDuration();

  absl::Duration max_delay = absl::Milliseconds(5);  // of a message, unless it is held up
  bool even = false;                                 // every message takes max_delay

  static Scenario From(Random& random);
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_SCENARIO_H_

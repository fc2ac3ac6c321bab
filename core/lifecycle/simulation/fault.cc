#include "muster/core/lifecycle/simulation/fault.h"

namespace muster::simulation {

absl::string_view Name(Fault fault) {
  static constexpr absl::string_view kNames[] = {
      "crash",
      "host gone",
      "exit",
      "restart",
      "stop",
      "slow rank",
      "clock jump",
      "cut off",
      "session loss",
      "store loss",
      "store pause",
      "long store pause",
      "held news",
      "held message",
      "connect fails",
      "connect times out",
      "connect silent",
      "connect slow",
      "work fails",
      "transport breaks",
      "work silent",
      "finalize fails",
      "finalize silent",
      "finalize slow",
      "abort silent",
      "abort slow",
      "refusal",
      "other identity",
      "other order",
      "stuck",
      "early end",
      "abort",
      "close",
      "hurry",
      "slow holders",
  };
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == kFaultCount);
  return kNames[static_cast<int>(fault)];
}

}  // namespace muster::simulation

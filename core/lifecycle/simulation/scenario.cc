#include "muster/core/lifecycle/simulation/scenario.h"

namespace muster::simulation {

absl::string_view Name(Mutation mutation) {
  switch (mutation) {
    case Mutation::kNone:
      return "none";
    case Mutation::kDropWithdraw:
      return "drop withdrawals";
    case Mutation::kReorderNews:
      return "reorder news";
    case Mutation::kBlindWrites:
      return "blind writes";
    case Mutation::kForgetGenerations:
      return "forget generations";
    case Mutation::kDropNews:
      return "drop news";
    case Mutation::kLoseAlarms:
      return "lose alarms";
    case Mutation::kReviveWork:
      return "revive work";
  }
  return "unknown";
}

Scenario Scenario::From(Random& random) {
  Scenario scenario;
  scenario.size = random.Chance(5) ? 1 : static_cast<int>(2 + random.Below(3));
  scenario.rough = random.Chance(15);
  scenario.trouble = random.Chance(15) ? 0 : static_cast<int>(30 + random.Below(200));
  scenario.max_delay = absl::Milliseconds(1 + random.Below(20));
  scenario.even = random.Chance(20);  // many things then happen at the same instant
  scenario.loss_grace = random.Chance(50) ? absl::ZeroDuration() : absl::Milliseconds(50);
  return scenario;
}

}  // namespace muster::simulation

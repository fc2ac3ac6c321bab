#include "muster/core/lifecycle/simulation/scenario.h"

#include <algorithm>

namespace muster::simulation {
namespace {

int AnySize(Chooser& chooser) {
  const uint64_t kind = chooser.Below(1000);
  if (kind < 50) return 1;
  if (kind < 850) return static_cast<int>(2 + chooser.Below(3));
  if (kind < 970) return static_cast<int>(5 + chooser.Below(4));
  if (kind < 996) return static_cast<int>(9 + chooser.Below(8));
  return static_cast<int>(17 + chooser.Below(48));
}

struct MutationText {
  Mutation mutation;
  absl::string_view name;
  absl::string_view breaks;
};
constexpr MutationText kMutationTexts[] = {
    {Mutation::kNone, "none", ""},
    {Mutation::kDropWithdraw, "drop_withdraw", "L2: gathers wait in the store"},
    {Mutation::kReorderNews, "reorder_news", "L7: still no group works"},
    {Mutation::kBlindWrites, "blind_writes", "L4: the first cause"},
    {Mutation::kForgetGenerations, "forget_generations", "L8: came"},
    {Mutation::kDropNews, "drop_news", "L4: after it should know"},
    {Mutation::kLoseAlarms, "lose_alarms", "L1: in one state"},
    {Mutation::kReviveWork, "revive_work", "L3: was let in"},
};

const MutationText& TextOf(Mutation mutation) {
  for (const MutationText& text : kMutationTexts) {
    if (text.mutation == mutation) return text;
  }
  return kMutationTexts[0];
}

}  // namespace

absl::string_view Name(Mutation mutation) { return TextOf(mutation).name; }
absl::string_view Breaks(Mutation mutation) { return TextOf(mutation).breaks; }

Scenario Scenario::From(Chooser& chooser, int size) {
  Scenario scenario;
  scenario.size = AnySize(chooser);
  if (size > 0) scenario.size = size;
  scenario.names = chooser.Chance(75) ? 1 : 2;
  scenario.rough = chooser.Chance(15);
  scenario.trouble = chooser.Chance(15) ? 0 : static_cast<int>(30 + chooser.Below(200));
  // Large jobs are dear: there, too, some generations come and go in that time.
  if (scenario.size > 8) scenario.chaos = std::max(absl::Milliseconds(600), scenario.chaos / 3);
  scenario.max_delay = absl::Milliseconds(1 + chooser.Below(20));
  scenario.even = chooser.Chance(20);  // many things then happen at the same instant
  scenario.loss_grace = chooser.Chance(50) ? absl::ZeroDuration() : absl::Milliseconds(50);
  if (chooser.Chance(30)) scenario.slowness = absl::Milliseconds(15);
  if (chooser.Chance(30)) scenario.held_news = absl::Milliseconds(30);
  if (chooser.Chance(30)) scenario.store_pause = absl::Milliseconds(40);
  return scenario;
}

std::vector<std::string> GroupNames(const Scenario& scenario) {
  std::vector<std::string> names = {"train", "eval"};
  names.resize(static_cast<size_t>(scenario.names));
  return names;
}

}  // namespace muster::simulation

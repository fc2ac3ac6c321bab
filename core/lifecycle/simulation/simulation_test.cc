// Thousands of seeded runs, and proof that the checks have teeth. One seed again, with its
// schedule:
//
//   ./bazelw run //core/lifecycle/simulation:simulation_test -- --seed=42
#include "muster/core/lifecycle/simulation/simulation.h"

#include <cstdint>
#include <iostream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

ABSL_FLAG(uint64_t, seed, 0, "Run this seed alone and print its schedule.");
ABSL_FLAG(uint64_t, first_seed, 1, "Where to begin.");
ABSL_FLAG(uint64_t, seeds, 2000, "How many seeds to run.");
ABSL_FLAG(absl::Duration, budget, absl::Seconds(20), "After that much time no seed is begun.");
ABSL_FLAG(int, mutation, 0, "With --seed: what to break, 0 to 7.");

namespace muster::simulation {
namespace {

std::string Replay(const SimulationOptions& options) {
  SimulationOptions again = options;
  again.journal = true;
  const SimulationResult result = Simulate(again);
  return absl::StrCat(result.schedule, "\nseed ", options.seed, ": ",
                      result.violation.empty() ? "every promise was kept" : result.violation,
                      "\nreplay with --seed=", options.seed);
}

TEST(SimulationTest, EveryPromiseIsKeptWhateverGoesWrong) {
  const uint64_t first = absl::GetFlag(FLAGS_first_seed);
  Tally tally;
  // A busy machine or a sanitizer runs fewer of them; which ones is not a matter of chance.
  const absl::Time stop = absl::Now() + absl::GetFlag(FLAGS_budget);
  uint64_t seeds = 0;
  for (; seeds < absl::GetFlag(FLAGS_seeds) && (seeds < 100 || absl::Now() < stop); ++seeds) {
    const uint64_t seed = first + seeds;
    const SimulationResult result = Simulate({seed});
    ASSERT_EQ(result.violation, "") << Replay({seed});
    tally.Add(result.tally);
  }
  std::cout << seeds << " seeds: " << tally.steps << " steps, " << tally.lives << " groups, "
            << tally.ready << " ready, " << tally.collectives << " collectives, " << tally.destroyed
            << " destroyed, " << tally.aborted << " aborted, " << tally.dead << " died, "
            << tally.causes_shared << " causes shared, " << tally.residues << " residues, "
            << tally.lost_store << " lost the store, " << tally.accepted_proposals << " replaced, "
            << tally.refused_proposals << " kept; slowest recovery "
            << absl::FormatDuration(tally.slowest_recovery) << "\n";
  // What never happens is not tested.
  for (int64_t count : {tally.ready, tally.destroyed, tally.aborted, tally.dead,
                        tally.causes_shared, tally.residues, tally.lost_store,
                        tally.accepted_proposals, tally.refused_proposals, tally.collectives}) {
    EXPECT_GT(count, seeds / 100);
  }
}

TEST(SimulationTest, ASeedAlwaysGivesTheSameSchedule) {
  for (uint64_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(Replay({seed}), Replay({seed}));
}

class MutationTest : public testing::TestWithParam<Mutation> {};

// A checker that finds nothing is worth nothing: each way to break what the protocol relies on is
// noticed, by some seed, soon.
TEST_P(MutationTest, IsNoticed) {
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    const SimulationResult result = Simulate({seed, GetParam()});
    if (result.violation.empty()) continue;
    std::cout << Name(GetParam()) << ": seed " << seed << ": " << result.violation << "\n";
    return;
  }
  ADD_FAILURE() << "1500 seeds, and nobody noticed";
}

INSTANTIATE_TEST_SUITE_P(All, MutationTest, testing::ValuesIn(kAllMutations), [](const auto& info) {
  std::string name;
  bool upper = true;
  for (char c : Name(info.param)) {
    if (c != ' ') name += upper ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == ' ';
  }
  return name;
});

}  // namespace
}  // namespace muster::simulation

int main(int argc, char** argv) {
  // There is one thread, and the executor's lock is taken at every step.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  testing::InitGoogleTest(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  if (const uint64_t seed = absl::GetFlag(FLAGS_seed); seed != 0) {
    const auto mutation = static_cast<muster::simulation::Mutation>(absl::GetFlag(FLAGS_mutation));
    std::cout << muster::simulation::Replay({seed, mutation}) << "\n";
    return 0;
  }
  return RUN_ALL_TESTS();
}

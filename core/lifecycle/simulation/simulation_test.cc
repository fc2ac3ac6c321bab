// Thousands of seeded runs, and proof that what can go wrong does. One seed again, with its
// schedule:
//
//   bazel run //core/lifecycle/simulation:explore -- --seed=42
#include "muster/core/lifecycle/simulation/simulation.h"

#include <cstdint>
#include <iostream>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace muster::simulation {
namespace {

constexpr int kParts = 4;  // of 2,000 together
constexpr uint64_t kSeedsOfAPart = 500;

class SimulationTest : public testing::TestWithParam<int> {};

TEST_P(SimulationTest, EveryPromiseIsKeptWhateverGoesWrong) {
  const uint64_t first = 1 + static_cast<uint64_t>(GetParam()) * kSeedsOfAPart;
  Tally tally;
  for (uint64_t seed = first; seed < first + kSeedsOfAPart; ++seed) {
    const SimulationResult result = Simulate({seed});
    ASSERT_EQ(result.violation, "") << Replay({seed});
    tally.Add(result.tally);
  }
  std::cout << tally.ToString();
  // What never happens is not tested.
  for (const auto& [name, count] : tally.Counts()) EXPECT_GT(count, 0) << name;
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulationTest, testing::Range(0, kParts));

TEST(SimulatorTest, ASeedAlwaysGivesTheSameSchedule) {
  for (uint64_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(Replay({seed}), Replay({seed}));
}

TEST(SimulatorTest, AJobOf64RanksKeepsItsPromisesToo) {
  SimulationOptions big;
  big.size = 64;
  const SimulationResult result = Simulate(big);
  EXPECT_EQ(result.violation, "") << Replay(big);
  EXPECT_GE(result.tally.ready, 64);
}

}  // namespace
}  // namespace muster::simulation

int main(int argc, char** argv) {
  // There is one thread, and the executor's lock is taken at every step.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

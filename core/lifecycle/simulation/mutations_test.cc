// A checker that finds nothing is worth nothing: each way to break the protocol, or what it relies
// on, is noticed by some seed, soon; and without one nothing is.
#include <cstdint>
#include <iostream>
#include <string>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "muster/core/lifecycle/simulation/simulation.h"

namespace muster::simulation {
namespace {

constexpr uint64_t kSeeds = 1000;

class MutationTest : public testing::TestWithParam<Mutation> {};

TEST_P(MutationTest, IsNoticed) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.mutation = GetParam();
    const SimulationResult result = Simulate(options);
    if (result.violation.empty()) continue;
    std::cout << Name(GetParam()) << ": seed " << seed << ": " << result.violation << "\n";
    return;
  }
  ADD_FAILURE() << kSeeds << " seeds, and nobody noticed";
}

INSTANTIATE_TEST_SUITE_P(Surroundings, MutationTest, testing::ValuesIn(kAllMutations),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace muster::simulation

int main(int argc, char** argv) {
  // There is one thread, and the executor's lock is taken at every step.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

// A checker that finds nothing is worth nothing: each mistake planted in the protocol, or in what
// it relies on, is noticed by some seed, soon; and without one nothing is.
#include <cstdint>
#include <iostream>
#include <string>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "muster/core/lifecycle/simulation/protocol_mutations.h"
#include "muster/core/lifecycle/simulation/simulation.h"

namespace muster::simulation {
namespace {

constexpr uint64_t kSeeds = 2000;
// So many are run even after one has noticed, to tell how easily it is.
constexpr uint64_t kSample = 100;

// The first seed that notices; 0: none.
uint64_t Notice(const std::string& name, Mutation mutation) {
  uint64_t first = 0;
  uint64_t noticed = 0;  // by the sample
  for (uint64_t seed = 1; seed <= kSeeds && (seed <= kSample || first == 0); ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.mutation = mutation;
    const SimulationResult result = Simulate(options);
    if (result.violation.empty()) continue;
    noticed += seed <= kSample;
    if (first != 0) continue;
    first = seed;
    std::cout << name << ": seed " << seed << ": " << result.violation << "\n";
  }
  std::cout << name << ": noticed by " << noticed << " of the first " << kSample << " seeds\n";
  return first;
}

class MutationTest : public testing::TestWithParam<Mutation> {};

TEST_P(MutationTest, IsNoticed) { EXPECT_GT(Notice(std::string(Name(GetParam())), GetParam()), 0); }

INSTANTIATE_TEST_SUITE_P(OfTheSurroundings, MutationTest, testing::ValuesIn(kAllMutations),
                         [](const auto& info) { return std::string(Name(info.param)); });

class ProtocolMutationTest : public testing::TestWithParam<int> {
 protected:
  static std::string NameOf(int number) {
    return ProtocolMutations()[static_cast<size_t>(number - 1)];
  }
};

TEST_P(ProtocolMutationTest, IsNoticed) {
  PlantProtocolMutation(GetParam());
  EXPECT_GT(Notice(NameOf(GetParam()), Mutation::kNone), 0);
  PlantProtocolMutation(0);
}

INSTANTIATE_TEST_SUITE_P(OfTheProtocol, ProtocolMutationTest,
                         testing::Range(1, static_cast<int>(ProtocolMutations().size()) + 1),
                         [](const auto& info) {
                           return ProtocolMutations()[static_cast<size_t>(info.param - 1)];
                         });

TEST(NoMutationTest, WithoutOneNothingIsNoticed) {
  EXPECT_GE(ProtocolMutations().size(), 10);
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    ASSERT_EQ(Simulate({seed}).violation, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace muster::simulation

int main(int argc, char** argv) {
  // There is one thread, and the executor's lock is taken at every step.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

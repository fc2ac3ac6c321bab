// A checker that finds nothing is worth nothing: each mistake planted in the real code, or in what
// it relies on, is noticed by some seed, soon, and by the check of the promise that it breaks; and
// without one the same program notices nothing.
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "muster/core/lifecycle/simulation/protocol_mutations.h"
#include "muster/core/lifecycle/simulation/simulation.h"

namespace muster::simulation {
namespace {

constexpr uint64_t kSeeds = 2000;
// So many are run even after one has noticed, to tell how easily it is.
constexpr uint64_t kSample = 100;

// "L4: a suspicion is written 3ms after it arose" is by "L4: a suspicion is written".
bool IsBy(absl::string_view violation, absl::string_view breaks) {
  const std::pair<absl::string_view, absl::string_view> promise_and_words =
      absl::StrSplit(breaks, absl::MaxSplits(": ", 1));
  return absl::StartsWith(violation, absl::StrCat(promise_and_words.first, ": ")) &&
         absl::StrContains(violation, promise_and_words.second);
}

// The first seed in which the check that should notice does; 0: none.
uint64_t Notice(absl::string_view name, absl::string_view breaks, Mutation mutation) {
  uint64_t first = 0;
  uint64_t noticed = 0;  // by the sample
  uint64_t by_it = 0;
  std::map<std::string, int> others;
  for (uint64_t seed = 1; seed <= kSeeds && (seed <= kSample || first == 0); ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.mutation = mutation;
    const std::string violation = Simulate(options).violation;
    if (violation.empty()) continue;
    noticed += seed <= kSample;
    if (!IsBy(violation, breaks)) {
      ++others[violation.substr(0, violation.find_first_of("0123456789('", 4))];
      continue;
    }
    by_it += seed <= kSample;
    if (first != 0) continue;
    first = seed;
    std::cout << name << ": seed " << seed << ": " << violation << "\n";
  }
  std::cout << name << ": noticed by " << noticed << " of the first " << kSample << " seeds, by '"
            << breaks << "' in " << by_it << "\n";
  if (first == 0) {
    for (const auto& [what, count] : others) std::cout << "  " << count << "  " << what << "\n";
  }
  return first;
}

class MutationTest : public testing::TestWithParam<Mutation> {};

TEST_P(MutationTest, IsNoticedByThePromiseThatItBreaks) {
  ASSERT_NE(Breaks(GetParam()), "");
  EXPECT_GT(Notice(Name(GetParam()), Breaks(GetParam()), GetParam()), 0);
}

INSTANTIATE_TEST_SUITE_P(OfTheSurroundings, MutationTest, testing::ValuesIn(kAllMutations),
                         [](const auto& info) { return std::string(Name(info.param)); });

class ProtocolMutationTest : public testing::TestWithParam<int> {};

TEST_P(ProtocolMutationTest, IsNoticedByThePromiseThatItBreaks) {
  const ProtocolMutation planted = ProtocolMutations()[static_cast<size_t>(GetParam() - 1)];
  ASSERT_NE(planted.breaks, "") << planted.name;
  PlantProtocolMutation(GetParam());
  EXPECT_GT(Notice(planted.name, planted.breaks, Mutation::kNone), 0);
  PlantProtocolMutation(0);
}

INSTANTIATE_TEST_SUITE_P(OfTheRealCode, ProtocolMutationTest,
                         testing::Range(1, static_cast<int>(ProtocolMutations().size()) + 1),
                         [](const auto& info) {
                           return ProtocolMutations()[static_cast<size_t>(info.param - 1)].name;
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

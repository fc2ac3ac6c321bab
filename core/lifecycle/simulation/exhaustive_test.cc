// All schedules of small jobs, as far as an ordinary test has time. Further:
//
//   bazel run //core/lifecycle/simulation:explore -- --exhaustive --size=3 --depth=14
#include "muster/core/lifecycle/simulation/exhaustive.h"

#include <iostream>
#include <string>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "muster/core/lifecycle/state.h"

namespace muster::simulation {
namespace {

struct Part {
  int size;
  int depth;
  GroupState begin;
};

class ExhaustiveTest : public testing::TestWithParam<Part> {};

TEST_P(ExhaustiveTest, EveryScheduleKeepsEveryPromise) {
  ExhaustiveOptions options;
  options.size = GetParam().size;
  options.depth = GetParam().depth;
  options.begin = GetParam().begin;
  const ExhaustiveResult result = ExploreAll(options);
  EXPECT_EQ(result.violation, "") << result.schedule;
  EXPECT_TRUE(result.complete);
  EXPECT_GT(result.tally.ready, 0);
  EXPECT_GT(result.tally.aborted, 0);
  std::cout << result.states << " states, " << result.schedules << " schedules\n";
}

INSTANTIATE_TEST_SUITE_P(
    FromEachState, ExhaustiveTest,
    testing::Values(Part{2, 4, GroupState::kCreated}, Part{2, 4, GroupState::kConnecting},
                    Part{2, 4, GroupState::kReady}, Part{2, 4, GroupState::kDraining},
                    Part{3, 2, GroupState::kCreated}, Part{3, 2, GroupState::kConnecting},
                    Part{3, 2, GroupState::kReady}, Part{3, 2, GroupState::kDraining}),
    [](const auto& info) {
      return std::string(Name(info.param.begin)) + std::to_string(info.param.size);
    });

// The same search finds a mistake that is there.
TEST(ExplorerTest, ACollectiveThatIsLetInTooLateIsFound) {
  ExhaustiveOptions options;
  options.depth = 4;
  options.begin = GroupState::kReady;
  options.mutation = Mutation::kReviveWork;
  const ExhaustiveResult result = ExploreAll(options);
  EXPECT_NE(result.violation, "");
  EXPECT_NE(result.schedule, "");
}

}  // namespace
}  // namespace muster::simulation

int main(int argc, char** argv) {
  // There is one thread, and the executor's lock is taken at every step.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

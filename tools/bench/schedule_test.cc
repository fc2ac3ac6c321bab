#include "muster/tools/bench/schedule.h"

#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace bench {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(ScheduleTest, EverySubjectHasOneTurnARound) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_THAT(RoundOrder(1, round, 4), UnorderedElementsAre(0, 1, 2, 3));
  }
  EXPECT_THAT(RoundOrder(1, 0, 0), IsEmpty());
}

TEST(ScheduleTest, OneSeedGivesOneOrderAndAnotherSeedAnother) {
  EXPECT_EQ(RoundOrder(7, 3, 5), RoundOrder(7, 3, 5));
  int same = 0;
  for (int round = 0; round < 50; ++round) {
    same += RoundOrder(7, round, 5) == RoundOrder(8, round, 5) ? 1 : 0;
  }
  EXPECT_LT(same, 10);
}

TEST(ScheduleTest, OverManyRoundsEachSubjectIsAsOftenFirst) {
  std::map<int, int> first;
  for (int round = 0; round < 3000; ++round) ++first[RoundOrder(42, round, 3)[0]];
  for (int subject = 0; subject < 3; ++subject) {
    EXPECT_GT(first[subject], 850) << subject;
    EXPECT_LT(first[subject], 1150) << subject;
  }
}

}  // namespace
}  // namespace bench
}  // namespace muster

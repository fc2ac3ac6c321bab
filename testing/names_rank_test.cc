#include "muster/testing/names_rank.h"

#include "gtest/gtest.h"
#include "muster/core/platform/describe_ranks.h"

namespace muster::testing {
namespace {

TEST(NamesRankTest, ARankIsNamedAloneAndAmongOthers) {
  for (const char* message :
       {"rank 3", "ranks 3", "ranks 2, 3", "ranks 3, 12 did not come", "ranks 1, 2 and 3",
        "ranks 1, 2, and 3: gone", "frank 1, rank 2, rank 3.", "rank 3's socket", "ranks 2 to 5",
        "ranks 0 to 3 did not come"}) {
    EXPECT_TRUE(NamesRank(message, 3)) << message;
  }
  for (const char* message :
       {"", "rank", "rank 31", "rank 13", "ranks 31, 13", "frank 3", "rank 2, 3 times",
        "ranks 0, 1 and 3 more", "3 ranks", "rank 3rd", "ranks 2 of 3", "rank -3", "ranks 4 to 7",
        "ranks 0 to 2", "rank 2 to 5"}) {
    EXPECT_FALSE(NamesRank(message, 3)) << message;
  }
}

TEST(NamesRankTest, ReadsWhatDescribeRanksWrites) {
  EXPECT_TRUE(NamesRank(DescribeRanks({3}), 3));
  EXPECT_TRUE(NamesRank(DescribeRanks({1, 3}), 3));
  EXPECT_TRUE(NamesRank(DescribeRanks({1, 2, 3, 4, 5}), 3));
  EXPECT_FALSE(NamesRank(DescribeRanks({1, 2, 4}), 3));
}

}  // namespace
}  // namespace muster::testing

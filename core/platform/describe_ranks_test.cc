#include "muster/core/platform/describe_ranks.h"

#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(DescribeRanksTest, AFewAreNamed) {
  EXPECT_EQ(DescribeRanks({3}), "rank 3");
  EXPECT_EQ(DescribeRanks({0, 1, 4}), "ranks 0, 1, 4");
  EXPECT_EQ(DescribeRanks({0, 1, 2}), "ranks 0, 1, 2");
  EXPECT_EQ(DescribeRanks({0, 1, 2, 4}), "ranks 0, 1, 2, 4");
}

TEST(DescribeRanksTest, RunsAreShort) {
  EXPECT_EQ(DescribeRanks({0, 1, 2, 3}), "ranks 0 to 3");
  std::vector<int> many;
  for (int rank = 1; rank < 4096; ++rank) many.push_back(rank);
  EXPECT_EQ(DescribeRanks(many), "ranks 1 to 4095");
}

TEST(DescribeRanksTest, OfManyTheFirstAreNamedAndTheRestCounted) {
  EXPECT_EQ(DescribeRanks({0, 2, 4, 6, 8, 10, 12, 14}), "ranks 0, 2, 4, 6, 8, 10, 12, 14");
  EXPECT_EQ(DescribeRanks({0, 2, 4, 6, 8, 10, 12, 14, 16, 17}),
            "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
}

}  // namespace
}  // namespace muster

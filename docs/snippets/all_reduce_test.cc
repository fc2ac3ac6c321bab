// docs/start.md: the first test on several ranks.
#include "muster/testing/multi_rank_test.h"

class AllReduceTest : public muster::testing::MultiRankTest {};

TEST_F(AllReduceTest, SumsOverRanks) {
  float value = rank() + 1;
  ASSERT_OK(group().AllReduce(muster::Buffer::Of(value), muster::ReduceOp::kSum));
  EXPECT_EQ(value, world_size() * (world_size() + 1) / 2);
}

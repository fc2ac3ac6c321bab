// docs/start.md: the first test on several ranks.
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
// docs/start.md begins here.
#include "muster/testing/multi_rank_test.h"

class AllReduceTest : public muster::testing::MultiRankTest {};

TEST_F(AllReduceTest, SumsOverRanks) {
  float value = rank() + 1;
  ASSERT_OK(group().AllReduce(muster::Buffer::Of(value), muster::ReduceOp::kSum));
  EXPECT_EQ(value, world_size() * (world_size() + 1) / 2);
}

TEST_F(AllReduceTest, AnAbortOnOneRankIsTheCauseOnAll) {
  group();  // every rank is in it
  if (rank() == 0) lease().Abort(absl::DataLossError("a bad batch"));
  float value = 1;
  const absl::Status status = group().AllReduce(muster::Buffer::Of(value), muster::ReduceOp::kSum);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("a bad batch"));
}

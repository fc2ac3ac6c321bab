#include "app/mean.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "muster/testing/multi_rank_test.h"

namespace app {
namespace {

class MeanTest : public muster::testing::MultiRankTest {};

TEST_F(MeanTest, WeighsEachValueAlike) {
  // Rank r has r + 1 values, all of them r.
  const std::vector<double> values(rank() + 1, rank());
  double sum = 0;
  double count = 0;
  for (int r = 0; r < world_size(); ++r) {
    sum += r * (r + 1);
    count += r + 1;
  }
  const absl::StatusOr<double> mean = MeanOverRanks(group(), values);
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_DOUBLE_EQ(*mean, sum / count);
}

TEST_F(MeanTest, OfNothingIsAnErrorOnEveryRank) {
  EXPECT_TRUE(absl::IsInvalidArgument(MeanOverRanks(group(), {}).status()));
}

}  // namespace
}  // namespace app

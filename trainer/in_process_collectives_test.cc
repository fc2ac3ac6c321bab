// The world that the trainer's unit tests believe in.
#include "muster/trainer/in_process_collectives.h"

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/reduce_op.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

void ExpectOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST(InProcessCollectivesTest, EachReductionGivesItsOwnResult) {
  const std::map<ReduceOp, double> expected = {{ReduceOp::kSum, 12},
                                               {ReduceOp::kAverage, 4},
                                               {ReduceOp::kMin, 2},
                                               {ReduceOp::kMax, 6},
                                               {ReduceOp::kProduct, 48}};
  ExpectOk(RunRanks(3, [&expected](Collectives& ranks) {
    for (const auto& [op, result] : expected) {
      double value = 2.0 * (ranks.rank() + 1);
      absl::Status status = ranks.AllReduce(Buffer::Of(value), op);
      if (!status.ok()) return status;
      EXPECT_EQ(value, result) << Name(op);
    }
    int64_t largest = ranks.rank();
    absl::Status status = ranks.AllReduce(Buffer::Of(largest), ReduceOp::kMax);
    EXPECT_EQ(largest, 2);
    return status;
  }));
}

TEST(InProcessCollectivesTest, RanksThatMeetWithDifferentOperationsAreToldWhich) {
  const std::vector<absl::Status> statuses = RunRanks(2, [](Collectives& ranks) {
    float value = 1;
    return ranks.AllReduce(Buffer::Of(value), ranks.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("rank 1 is in all_reduce"));
  }
}

}  // namespace
}  // namespace muster

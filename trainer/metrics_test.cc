#include "muster/trainer/metrics.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/in_process_collectives.h"

namespace muster {
namespace {

TEST(MetricsTest, EveryRankGetsTheSumsOverAllRanks) {
  for (const absl::Status& status : RunRanks(3, [](Collectives& ranks) {
         const double rank = ranks.rank();
         absl::StatusOr<MetricSums> all = ReduceMetrics(ranks, {1.5 * rank, 2 * rank, 4 + rank});
         if (!all.ok()) return all.status();
         EXPECT_EQ(all->loss, 4.5);
         EXPECT_EQ(all->correct, 6);
         EXPECT_EQ(all->count, 15);
         EXPECT_EQ(all->mean_loss(), 0.3);
         EXPECT_EQ(all->accuracy(), 0.4);
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(MetricsTest, CountsBeyondWhatFloatHoldsStayExact) {
  for (const absl::Status& status : RunRanks(2, [](Collectives& ranks) {
         absl::StatusOr<MetricSums> all = ReduceMetrics(ranks, {0, 0, (1 << 24) + 1.0});
         if (!all.ok()) return all.status();
         EXPECT_EQ(all->count, (1 << 25) + 2.0);
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(MetricsTest, NothingCountedIsZeroAndNotNan) {
  EXPECT_EQ(MetricSums().mean_loss(), 0);
  EXPECT_EQ(MetricSums().accuracy(), 0);
}

TEST(MetricsTest, ARegressionHasNoAccuracyOnAnyRankAndAClassifierThatIsNeverRightHas) {
  for (const absl::Status& status : RunRanks(2, [](Collectives& ranks) {
         const bool first = ranks.rank() == 0;  // the other one has no sample
         absl::StatusOr<MetricSums> all =
             ReduceMetrics(ranks, first ? MetricSums{3, 0, 2, 2} : MetricSums());
         if (!all.ok()) return all.status();
         EXPECT_FALSE(all->has_accuracy());
         EXPECT_EQ(all->ToString(), "loss 1.5000");
         all->Add({1, 0, 2, 2});
         EXPECT_EQ(all->ToString(), "loss 1.0000");
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ((MetricSums{2, 0, 4}).ToString(), "loss 0.5000, accuracy 0.0000");
}

TEST(MetricsTest, AnErrorOfTheGroupIsReturned) {
  const std::vector<absl::Status> statuses = RunRanks(2, [](Collectives& ranks) {
    if (ranks.rank() == 1) return absl::DataLossError("a broken reader");
    return ReduceMetrics(ranks, {}).status();
  });
  EXPECT_THAT(std::string(statuses[0].message()), ::testing::HasSubstr("rank 1 left"));
}

}  // namespace
}  // namespace muster

#include "muster/tools/bench/statistics.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace bench {
namespace {

using ::testing::HasSubstr;

std::vector<double> DownFrom(int n) {
  std::vector<double> samples;
  for (int i = n; i >= 1; --i) samples.push_back(i);
  return samples;
}

TEST(StatisticsTest, TheMedianOfAnOddNumberIsTheMiddleSample) {
  EXPECT_EQ(Summarize({9, 1, 5})->median, 5);
}

TEST(StatisticsTest, TheMedianOfAnEvenNumberIsTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(Summarize({1, 100, 4, 2})->median, 3);
}

TEST(StatisticsTest, PercentilesAreSamplesByNearestRank) {
  const Summary ten = *Summarize(DownFrom(10));
  EXPECT_EQ(ten.p10, 1);
  EXPECT_EQ(ten.p90, 9);
  const Summary eleven = *Summarize(DownFrom(11));
  EXPECT_EQ(eleven.p10, 2);
  EXPECT_EQ(eleven.p90, 10);
  EXPECT_EQ(eleven.samples, 11);
}

TEST(StatisticsTest, OneSampleIsAllOfIt) {
  const Summary one = *Summarize({7});
  EXPECT_EQ(one.median, 7);
  EXPECT_EQ(one.p10, 7);
  EXPECT_EQ(one.p90, 7);
}

TEST(StatisticsTest, WhatIsNoNumberIsRefusedInsteadOfAveraged) {
  EXPECT_EQ(Summarize({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Summarize({1, std::nan("")}).status().message(), HasSubstr("nan"));
  EXPECT_FALSE(Summarize({std::numeric_limits<double>::infinity()}).ok());
}

TEST(StatisticsTest, ARatioNeedsTwoPositiveNumbers) {
  EXPECT_EQ(*Ratio(3, 2), 1.5);
  EXPECT_FALSE(Ratio(1, 0).ok());
  EXPECT_FALSE(Ratio(0, 1).ok());
  EXPECT_FALSE(Ratio(-1, 1).ok());
  EXPECT_THAT(Ratio(std::nan(""), 1).status().message(), HasSubstr("nan to 1"));
}

}  // namespace
}  // namespace bench
}  // namespace muster

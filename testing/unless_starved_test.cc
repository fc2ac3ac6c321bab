#include "muster/testing/unless_starved.h"

#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster::testing {
namespace {

// Attempt n had to wait for waits[n].
Attempts Waiting(std::vector<absl::Duration> waits, int* attempt) {
  Attempts attempts;
  attempts.at_most = 3;
  attempts.longest_wait = [waits, attempt] { return waits.at(static_cast<size_t>((*attempt)++)); };
  return attempts;
}

constexpr absl::Duration kBusy = absl::Milliseconds(20);
constexpr absl::Duration kStarved = absl::Milliseconds(300);

TEST(UnlessStarvedTest, WhatSucceedsRunsOnce) {
  int attempt = 0;
  int runs = 0;
  UnlessStarved([&] { ++runs; }, Waiting({kStarved}, &attempt));
  EXPECT_EQ(runs, 1);
}

TEST(UnlessStarvedTest, AFailureOnABusyMachineIsTheTests) {
  static int attempt = 0;
  EXPECT_NONFATAL_FAILURE(
      UnlessStarved([] { ADD_FAILURE() << "late"; }, Waiting({kBusy}, &attempt)), "late");
  EXPECT_EQ(attempt, 1);
}

TEST(UnlessStarvedTest, AFailureOnAStarvedMachineIsTriedAgain) {
  static int attempt = 0;
  UnlessStarved([] { EXPECT_EQ(attempt, 1) << "late"; }, Waiting({kStarved, kBusy}, &attempt));
  EXPECT_EQ(attempt, 2);
}

TEST(UnlessStarvedTest, AFailureThatStaysWhenTheMachineHasTimeAgainIsTheTests) {
  static int attempt = 0;
  EXPECT_NONFATAL_FAILURE(
      UnlessStarved([] { FAIL() << "wrong"; }, Waiting({kStarved, kBusy}, &attempt)), "wrong");
  EXPECT_EQ(attempt, 2);
}

TEST(UnlessStarvedTest, WhereNoAttemptIsWorthAnythingTheTestIsSkipped) {
  int attempt = 0;
  ::testing::TestPartResultArray results;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
    UnlessStarved([] { FAIL() << "late"; }, Waiting({kStarved, kStarved, kStarved}, &attempt));
  }
  ASSERT_EQ(results.size(), 1);
  EXPECT_TRUE(results.GetTestPartResult(0).skipped());
  EXPECT_EQ(attempt, 3);
}

TEST(UnlessStarvedTest, TheMeterSeesThatItsThreadHadToWait) {
  const StarvationMeter meter;
  const absl::Time deadline = MonotonicNow() + TimeoutScale() * absl::Seconds(20);
  while (meter.Longest() <= absl::ZeroDuration() && MonotonicNow() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GT(meter.Longest(), absl::ZeroDuration()) << "no sleep ends at its very moment";
}

}  // namespace
}  // namespace muster::testing

// What ranks leave behind is ended and named, and nothing else is.

#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launcher_fixture.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST_F(LauncherTest, ADaemonThatARankLeavesIsEndedAndNamed) {
  job_.left_grace = absl::Milliseconds(100);
  const JobResult result = Run(2, {"1:daemon"});
  EXPECT_EQ(result.ExitCode(), 0);
  ASSERT_EQ(result.left.size(), 1u);
  EXPECT_EQ(result.left[0].rank, 1);
  EXPECT_TRUE(result.left[0].ended);
  EXPECT_THAT(result.Report(), ElementsAre(AllOf(StartsWith("left behind, ended now: process "),
                                                 HasSubstr("1:daemon"), HasSubstr("of rank 1"))));
}

TEST_F(LauncherTest, WhatARankThatDiesLeavesIsEnded) {
  job_.left_grace = absl::Milliseconds(10);
  const JobResult result = Run(2, {"1:daemon", "1:child", "1:die 9"});
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.left.size(), 2u);
}

TEST_F(LauncherTest, WhatEndsBySelfSoonIsNotLeftBehind) {
  job_.left_grace = TimeoutScale() * absl::Seconds(20);
  EXPECT_THAT(Run(2, {"*:brief"}).left, IsEmpty());
}

}  // namespace
}  // namespace muster

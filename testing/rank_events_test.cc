#include "muster/testing/rank_events.h"

#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace testing {
namespace {

class RankEventsTest : public ::testing::Test {
 protected:
  RankEventsTest() : path_(absl::StrCat(::testing::TempDir(), "/events")) {
    std::remove(path_.c_str());
    absl::StatusOr<std::unique_ptr<RankEventWriter>> writer = RankEventWriter::Open(path_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    writer_ = *std::move(writer);
  }
  RankRecord Read() {
    absl::StatusOr<RankRecord> record = ReadRankEvents(path_);
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? *record : RankRecord();
  }

  const std::string path_;
  std::unique_ptr<RankEventWriter> writer_;
};

TEST_F(RankEventsTest, WhatIsWrittenIsRead) {
  writer_->Started("Suite", "First");
  writer_->Failed("a.cc:1", "two\nlines\tand \"quotes\" \\ \xff");
  writer_->Ended(TestRecord::Outcome::kFailed);
  writer_->Failed("", "outside");
  writer_->Leaked("Suite.First", "train/1, ready");
  writer_->Started("Suite", "Second");
  writer_->Ended(TestRecord::Outcome::kSkipped);
  writer_->Finished(1);
  const RankRecord record = Read();
  ASSERT_EQ(record.tests.size(), 2u);
  EXPECT_EQ(record.tests[0].FullName(), "Suite.First");
  EXPECT_EQ(record.tests[0].outcome, TestRecord::Outcome::kFailed);
  EXPECT_LE(record.tests[0].started, record.tests[0].ended);
  ASSERT_EQ(record.tests[0].failures.size(), 1u);
  EXPECT_EQ(record.tests[0].failures[0].message, "two\nlines\tand \"quotes\" \\ \xff");
  EXPECT_EQ(record.tests[1].outcome, TestRecord::Outcome::kSkipped);
  ASSERT_EQ(record.outside.size(), 1u);
  EXPECT_EQ(record.leaked[0].group, "train/1, ready");
  EXPECT_EQ(record.finished_with, 1);
  EXPECT_EQ(record.running(), nullptr);
}

TEST_F(RankEventsTest, TheLaunchersTimesAndTheRanksAreComparable) {
  const absl::Duration before = HostTime();
  const absl::Time time = MonotonicNow();
  const absl::Duration after = HostTime();
  // For a machine that is too busy to read two clocks at once.
  const absl::Duration slack = TimeoutScale() * absl::Seconds(1);
  EXPECT_GE(ToHostTime(time), before - slack);
  EXPECT_LE(ToHostTime(time), after + slack);
  EXPECT_LE(ToHostTime(time - absl::Hours(1)), after - absl::Hours(1) + slack);
}

TEST_F(RankEventsTest, ATestThatDidNotEndIsRunning) {
  writer_->Started("Suite", "First");
  ASSERT_NE(Read().running(), nullptr);
  EXPECT_FALSE(Read().finished_with.has_value());
}

TEST_F(RankEventsTest, ALineThatWasCutOffIsLeftOut) {
  writer_->Started("Suite", "First");
  std::ofstream(path_, std::ios::app) << "end\t12";
  EXPECT_NE(Read().running(), nullptr);
}

TEST_F(RankEventsTest, NoFileIsNoEvents) {
  const absl::StatusOr<RankRecord> record = ReadRankEvents(path_ + ".none");
  ASSERT_TRUE(record.ok());
  EXPECT_TRUE(record->tests.empty());
}

TEST_F(RankEventsTest, AFileThatCannotBeReadIsAnErrorAndNoException) {
  const absl::Status read = ReadRankEvents(::testing::TempDir()).status();
  EXPECT_TRUE(absl::StrContains(read.message(), "Is a directory")) << read;
}

TEST_F(RankEventsTest, ALineThatMakesNoSenseIsAnError) {
  for (const char* line : {"x\n", "start\tx\ta\tb\n", "end\t1\tpassed\n", "start\t1\ta\n",
                           "finished\t1\tx\n", "start\t1\ta\t\\q\n"}) {
    EXPECT_EQ(ParseRankEvents(line).status().code(), absl::StatusCode::kDataLoss) << line;
  }
}

}  // namespace
}  // namespace testing
}  // namespace muster

#include "muster/testing/job_report.h"

#include <signal.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/testing/rank_events.h"

namespace muster {
namespace testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A job of two ranks that ran one test well; tests change it.
class JobReportTest : public ::testing::Test {
 protected:
  JobReportTest() {
    facts_.name = "//app:train_test_gloo_2ranks";
    facts_.started = absl::Seconds(100);
    facts_.deadline = absl::Seconds(50);
    facts_.logs = {"rank0.log", "rank1.log"};
    facts_.logs_in = "the test's outputs";
    facts_.result.duration = absl::Milliseconds(1300);
    facts_.result.ranks.resize(2);
    facts_.ranks.resize(2);
    for (int rank = 0; rank < 2; ++rank) {
      facts_.result.ranks[rank].pid = 800 + rank;
      facts_.result.ranks[rank].exit = RankExit::Exited(0);
      facts_.result.ranks[rank].ended_after = absl::Seconds(1);
      TestRecord test;
      test.suite = "TrainTest";
      test.name = "Validates";
      test.started = absl::Seconds(100);
      test.ended = absl::Milliseconds(100500);
      test.outcome = TestRecord::Outcome::kPassed;
      facts_.ranks[rank].tests = {test};
      facts_.ranks[rank].finished_with = 0;
    }
  }

  void Fail(int rank, double at, const std::string& where, const std::string& message) {
    TestRecord& test = facts_.ranks[rank].tests.back();
    test.failures.push_back({absl::Seconds(at), where, message});
    test.outcome = TestRecord::Outcome::kFailed;
    facts_.ranks[rank].finished_with = 1;
    facts_.result.ranks[rank].exit = RankExit::Exited(1);
    if (!facts_.result.first_failed.has_value()) {
      facts_.result.first_failed = rank;
      facts_.result.first_reason = "exited with code 1";
    }
  }

  // Dies inside its test.
  void Die(int rank, RankExit exit, double after) {
    facts_.ranks[rank].tests.back().outcome = TestRecord::Outcome::kRunning;
    facts_.ranks[rank].finished_with.reset();
    facts_.result.ranks[rank].exit = exit;
    facts_.result.ranks[rank].ended_after = absl::Seconds(after);
    if (!facts_.result.first_failed.has_value()) facts_.result.first_failed = rank;
  }

  static std::string Marked(const std::string& line, const std::string& mark) {
    return absl::StrCat(line, std::string(95 - line.size(), ' '), "  ", mark);
  }

  JobFacts facts_;
};

TEST_F(JobReportTest, SuccessIsOneLine) {
  const JobReport report(facts_);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.ExitCode(), 0);
  EXPECT_THAT(report.Lines(),
              ElementsAre("[muster] //app:train_test_gloo_2ranks PASSED after 1.3 s, "
                          "2 ranks, 1 tests each"));
}

TEST_F(JobReportTest, TheFirstInTimeIsBlamedWhoeverEndedFirst) {
  Fail(0, 100.3, "", "all_reduce #41 of train/1: rank 1 left:\n  label 17");
  Fail(1, 100.2, "reader.cc:88", "label 17 out of range [0, 10)");
  const JobReport report(facts_);
  EXPECT_THAT(
      report.Lines(),
      ElementsAre(
          "[muster] //app:train_test_gloo_2ranks FAILED after 1.3 s, rank 1 failed first",
          Marked("  rank 1  TrainTest.Validates: label 17 out of range [0, 10) (reader.cc:88)",
                 "<- first failure"),
          Marked("  rank 0  TrainTest.Validates: all_reduce #41 of train/1: rank 1 left: label 17",
                 "consequence"),
          "  logs: rank0.log rank1.log in the test's outputs"));
  EXPECT_THAT(report.blamed(), ElementsAre(1, 0));
  EXPECT_EQ(report.ExitCode(), 1);
}

TEST_F(JobReportTest, ADeathIsAFailureAtItsTime) {
  Fail(0, 100.9, "", "rank 1 was lost");
  Die(1, RankExit::Killed(SIGSEGV), 0.5);
  facts_.result.first_failed = 1;
  const JobReport report(facts_);
  EXPECT_EQ(report.Lines()[1],
            Marked("  rank 1  TrainTest.Validates: killed by signal 11", "<- first failure"));
  EXPECT_EQ(report.Lines()[2],
            Marked("  rank 0  TrainTest.Validates: rank 1 was lost", "consequence"));
  EXPECT_EQ(report.ExitCode(), 139);
}

TEST_F(JobReportTest, ARankThatStoppedComesBeforeThoseThatNoticed) {
  Fail(0, 100.9, "", "rank 1 was lost");
  Die(1, RankExit::Killed(SIGKILL), 5);
  facts_.result.ranks[1].signalled = SIGKILL;
  facts_.result.first_failed = 1;
  facts_.result.first_reason = "no heartbeat for 2s";
  EXPECT_EQ(JobReport(facts_).Lines()[1],
            Marked("  rank 1  TrainTest.Validates: no heartbeat for 2s", "<- first failure"));
}

TEST_F(JobReportTest, WhoQuotesWhatARankToldTheGroupComesAfterThatRank) {
  const std::string cause = "rank 1 left: \"label 17\"";
  Fail(0, 100.2, "", absl::StrCat("barrier #2 of train/1:\n", cause));
  Fail(1, 100.9, "", "could not go on");
  facts_.result.failed_groups = {{"train", cause, 1}};
  EXPECT_EQ(JobReport(facts_).Lines()[1],
            Marked("  rank 1  TrainTest.Validates: could not go on", "<- first failure"));
  EXPECT_THAT(JobReport(facts_).blamed(), ElementsAre(1, 0));
  // One that says nothing of it has a reason of its own.
  facts_.ranks[0].tests[0].failures[0].message = "wrong sum";
  EXPECT_EQ(JobReport(facts_).Lines()[1],
            Marked("  rank 0  TrainTest.Validates: wrong sum", "<- first failure"));
}

TEST_F(JobReportTest, WhoIsStillInItsTestWhenTheJobIsEndedIsNoConsequenceAndTheHeadlineSaysWhy) {
  Fail(0, 100.2, "", "all_reduce #1 of g/1 did not finish: rank 0 waited for rank 1");
  Die(1, RankExit::Killed(SIGTERM), 50);
  facts_.result.ranks[1].signalled = SIGTERM;
  facts_.result.running_at_timeout = {1};
  facts_.result.duration = absl::Milliseconds(50200);
  std::vector<std::string> lines = JobReport(facts_).Lines();
  EXPECT_EQ(
      lines[0],
      "[muster] //app:train_test_gloo_2ranks FAILED after 50.2 s, rank 0 failed first; rank 1 "
      "still ran when the deadline of 50.0 s passed");
  EXPECT_THAT(lines[1], HasSubstr("<- first failure"));
  EXPECT_EQ(lines[2], Marked("  rank 1  still in TrainTest.Validates", "ended by muster"));

  facts_.result.running_at_timeout.clear();
  facts_.result.stragglers = {1};
  facts_.straggler_grace = absl::Seconds(10);
  lines = JobReport(facts_).Lines();
  EXPECT_EQ(
      lines[0],
      "[muster] //app:train_test_gloo_2ranks FAILED after 50.2 s, rank 0 failed first; rank 1 "
      "still ran 10.0 s after a failed rank had ended");
  EXPECT_EQ(lines[2], Marked("  rank 1  still in TrainTest.Validates", "ended by muster"));
  // Also where it hung after all its tests.
  facts_.ranks[1].tests.back().outcome = TestRecord::Outcome::kPassed;
  facts_.ranks[1].finished_with = 0;
  EXPECT_EQ(JobReport(facts_).Lines()[2],
            Marked("  rank 1  all tests done, but still there", "ended by muster"));
}

TEST_F(JobReportTest, AConsequenceNamesItsCauseOrARecordDoes) {
  Fail(1, 100.2, "", "no such file");
  Fail(0, 100.4, "", "no such file");
  EXPECT_EQ(JobReport(facts_).Lines()[2], "  rank 0  TrainTest.Validates: no such file");
  facts_.ranks[0].tests[0].failures[0].message = "rank 12 left";
  EXPECT_EQ(JobReport(facts_).Lines()[2], "  rank 0  TrainTest.Validates: rank 12 left");
  facts_.ranks[0].tests[0].failures[0].message = "rank 12 left, of rank 1";
  EXPECT_THAT(JobReport(facts_).Lines()[2], HasSubstr("  consequence"));
  // An exit has no words of its own; what its group knew explains it.
  facts_.ranks[0].tests[0].failures.clear();
  Die(0, RankExit::Exited(4), 1);
  EXPECT_EQ(JobReport(facts_).Lines()[2], "  rank 0  TrainTest.Validates: exited with code 4");
  facts_.result.failed_groups_at_end = {{"train", "rank 1 left: x", 1}};
  EXPECT_THAT(JobReport(facts_).Lines()[2], HasSubstr("  consequence"));
}

TEST_F(JobReportTest, FailuresInDifferentTestsAreNoConsequences) {
  Fail(1, 100.2, "", "a");
  Fail(0, 100.4, "", "b");
  facts_.ranks[0].tests[0].name = "Other";
  EXPECT_EQ(JobReport(facts_).Lines()[2], "  rank 0  TrainTest.Other: b");
}

TEST_F(JobReportTest, ATimeoutNamesTheRanksAndTheirTests) {
  Die(0, RankExit::Killed(SIGTERM), 50);
  facts_.result.first_failed.reset();
  facts_.result.ranks[0].signalled = SIGTERM;
  facts_.result.timed_out = true;
  facts_.result.running_at_timeout = {0};
  facts_.result.duration = absl::Seconds(50);
  EXPECT_THAT(
      JobReport(facts_).Lines(),
      ElementsAre("[muster] //app:train_test_gloo_2ranks FAILED after 50.0 s, the deadline of "
                  "50.0 s passed while rank 0 still ran",
                  "  rank 0  still in TrainTest.Validates",
                  "  logs: rank0.log rank1.log in the test's outputs"));
}

TEST_F(JobReportTest, WhatIsLeftFailsAJobThatPassed) {
  facts_.result.left.push_back({812, 1, "sleep 100", true});
  facts_.ranks[0].leaked.push_back({"TrainTest.Validates", "train/1, ready"});
  const JobReport report(facts_);
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.ExitCode(), 1);
  EXPECT_THAT(report.Lines(),
              ElementsAre("[muster] //app:train_test_gloo_2ranks FAILED after 1.3 s",
                          "  LEAKED by rank 0: group train/1, ready, in TrainTest.Validates",
                          "  LEAKED by rank 1: process 812 (sleep 100)",
                          "  logs: rank0.log rank1.log in the test's outputs"));
  EXPECT_THAT(report.blamed(), ElementsAre(1));
}

TEST_F(JobReportTest, RanksMustRunTheSameTests) {
  facts_.ranks[1].tests.clear();
  const JobReport report(facts_);
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.Lines()[1],
            "  the ranks ran different tests: as number 1 rank 0 ran "
            "TrainTest.Validates, rank 1 ran nothing more");
}

TEST_F(JobReportTest, ACrashAfterAllTestsIsAFailure) {
  facts_.result.ranks[1].exit = RankExit::Killed(SIGABRT);
  facts_.result.first_failed = 1;
  EXPECT_THAT(JobReport(facts_).Lines()[1],
              StartsWith("  rank 1  killed by signal 6 after all its tests"));
}

TEST_F(JobReportTest, XmlHasASuiteForEachRankAndEscapesWhatXmlCannotSay) {
  Fail(1, 100.2, "a.cc:1", "<&\">\n\x01Z\xC3\xBCrich");
  const std::string xml = JobReport(facts_).Xml();
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"2\""));
  EXPECT_THAT(xml, HasSubstr("<testsuite name=\"rank 0\" tests=\"1\" failures=\"0\""));
  EXPECT_THAT(xml, HasSubstr("<testsuite name=\"rank 1\" tests=\"1\" failures=\"1\""));
  EXPECT_THAT(xml,
              HasSubstr("<failure message=\"a.cc:1&#10;&lt;&amp;&quot;&gt;&#10;?Z\xC3\xBCrich\">"));
}

}  // namespace
}  // namespace testing
}  // namespace muster

#include "muster/core/launch/job_result.h"

#include <signal.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/rank_exit.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JobResultTest, ReportsWhatWasLeftBehindAlsoOfAGoodJob) {
  JobResult result;
  result.left.push_back({812, 1, "sleep 100", true});
  result.left.push_back({813, std::nullopt, "x", false});
  EXPECT_THAT(result.Report(),
              ElementsAre("left behind, ended now: process 812 (sleep 100) of rank 1",
                          "left behind, still there after SIGKILL: process 813 (x)"));
  EXPECT_EQ(result.ExitCode(), 0);
}

TEST(JobResultTest, ReportsWhatTheStoreRefusedAlsoOfAGoodJob) {
  JobResult result;
  result.store_refused = "1 connection that spoke another protocol";
  EXPECT_THAT(result.Report(),
              ElementsAre("the store refused 1 connection that spoke another protocol"));
  result.store_notice = "the store is served on TCP";
  EXPECT_THAT(result.Report(), ElementsAre("the store is served on TCP",
                                           "the store refused 1 connection that spoke another "
                                           "protocol"));
}

TEST(JobResultTest, ALargeJobsReportStaysReadable) {
  JobResult result;
  result.ranks.resize(1000);
  for (RankResult& rank : result.ranks) rank.exit = RankExit::Exited(1);
  result.ranks[0].exit = RankExit::Exited(2);
  result.first_failed = 0;
  result.first_reason = "exited with code 2";
  EXPECT_LT(result.Report()[1].size(), 600u);
  EXPECT_THAT(result.Report()[1], ::testing::EndsWith("and 983 more"));
}

// Rank 0 ended first, with code 4; rank 1 later, with code 3; rank 2 well.
JobResult RankZeroEndedFirst() {
  JobResult result;
  result.ranks.resize(3);
  for (int rank = 0; rank < 3; ++rank) {
    result.ranks[rank].pid = 100 + rank;
    result.ranks[rank].ended_after = absl::Seconds(1);
  }
  result.ranks[0].exit = RankExit::Exited(4);
  result.ranks[1].exit = RankExit::Exited(3);
  result.ranks[2].exit = RankExit::Exited(0);
  result.first_failed = 0;
  result.first_reason = "exited with code 4";
  result.duration = absl::Seconds(2);
  return result;
}

TEST(JobResultTest, TheRankThatAGroupsRecordBlamesFailedFirstWhoeverEndedFirst) {
  JobResult result = RankZeroEndedFirst();
  result.failed_groups = {{"train", "rank 1: label 17 out of range", 1}};
  result.BlameByRecord();
  EXPECT_EQ(result.ExitCode(), 3);
  EXPECT_THAT(result.Report(),
              ElementsAre("FAILED after 2.0 s: rank 1 (pid 101) failed first: rank 1: label 17 out "
                          "of range; exited with code 3 (after 1.0 s)",
                          "the group \"train\" had failed before: rank 1: label 17 out of range",
                          "consequences of it: rank 0 exited with code 4"));
}

TEST(JobResultTest, TheEarliestRecordThatBlamesARankDecides) {
  JobResult result = RankZeroEndedFirst();
  result.failed_groups = {
      {"old", "rank 0: x", std::nullopt}, {"train", "rank 1: y", 1}, {"validate", "rank 0: z", 0}};
  result.BlameByRecord();
  EXPECT_EQ(result.first_failed, 1);
}

TEST(JobResultTest, ARankThatTheRecordBlamesAndThatLingeredIsBlamedThoughItWasEnded) {
  JobResult result = RankZeroEndedFirst();
  result.ranks[1].exit = RankExit::Killed(SIGTERM);
  result.ranks[1].signalled = SIGTERM;
  result.failed_groups = {{"train", "rank 1: label 17", 1}};
  result.BlameByRecord();
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.first_reason, "rank 1: label 17; ended by muster (SIGTERM)");
}

TEST(JobResultTest, ACrashThatTheLauncherSawStaysTheFirstFailure) {
  JobResult result = RankZeroEndedFirst();
  result.ranks[0].exit = RankExit::Killed(SIGSEGV);
  result.failed_groups = {{"train", "rank 1: label 17", 1}};
  result.BlameByRecord();
  EXPECT_EQ(result.first_failed, 0);
  EXPECT_EQ(result.ExitCode(), 139);
}

TEST(JobResultTest, ASilentRankThatWasEndedStaysTheFirstFailure) {
  JobResult result = RankZeroEndedFirst();
  result.ranks[0].exit = RankExit::Exited(1);
  result.ranks[0].signalled = SIGTERM;
  result.failed_groups = {{"train", "rank 1: label 17", 1}};
  result.BlameByRecord();
  EXPECT_EQ(result.first_failed, 0);
}

TEST(JobResultTest, ARecordBlamesNobodyWhoEndedWellOrDoesNotExist) {
  for (const int rank : {2, 3, 99}) {
    JobResult result = RankZeroEndedFirst();
    result.failed_groups = {{"train", "rank ...", rank}};
    result.BlameByRecord();
    EXPECT_EQ(result.first_failed, 0) << rank;
    EXPECT_EQ(result.first_reason, "exited with code 4") << rank;
  }
  JobResult interrupted;
  interrupted.ranks.resize(1);
  interrupted.interrupted_by = SIGINT;
  interrupted.failed_groups = {{"train", "rank 0: x", 0}};
  interrupted.BlameByRecord();
  EXPECT_EQ(interrupted.first_failed, std::nullopt);
}

TEST(JobResultTest, WhoEndsUnderALivingGroupIsBlamedWhateverItsCode) {
  JobResult result = RankZeroEndedFirst();
  result.failed_groups = {
      {"train", "rank 2 (host a, pid 102) exited while its groups were alive", 2, true}};
  result.BlameByRecord();
  EXPECT_EQ(result.first_failed, 2);
  EXPECT_EQ(result.ExitCode(), 1);
  EXPECT_THAT(
      result.Report()[0],
      HasSubstr("rank 2 (pid 102) failed first: exited with code 0 while its group \"train\" "
                "was alive"));
}

TEST(JobResultTest, WhatFollowsIsAConsequenceOnlyWhereARecordOrOurOwnSignalSaysSo) {
  JobResult result = RankZeroEndedFirst();
  result.ranks[2].exit = RankExit::Killed(SIGTERM);
  result.ranks[2].signalled = SIGTERM;
  EXPECT_THAT(result.Report(), ElementsAre(HasSubstr("rank 0 (pid 100) failed first"),
                                           "consequences of it: rank 2 ended by muster (SIGTERM)",
                                           "then: rank 1 exited with code 3"));
  result.failed_groups_at_end = {{"train", "rank 1 (host a, pid 1) was lost: x", 1}};
  EXPECT_EQ(result.Report()[2], "then: rank 1 exited with code 3");
  // Rank 1 learned of rank 0's end, and ended then.
  result.failed_groups_at_end = {{"train", "rank 0 (host a, pid 1) was lost: x", 0}};
  EXPECT_THAT(result.Report(),
              ElementsAre(HasSubstr("rank 0 (pid 100) failed first"),
                          "consequences of it: rank 1 exited with code 3, rank 2 ended by muster "
                          "(SIGTERM)"));
}

TEST(JobResultTest, TheFirstFailureHasItsOwnTimeWhereTheJobEndedLater) {
  JobResult result = RankZeroEndedFirst();
  EXPECT_EQ(result.Report()[0],
            "FAILED after 2.0 s: rank 0 (pid 100) failed first: exited with code 4 (after 1.0 s)");
  result.duration = absl::Milliseconds(1010);
  EXPECT_EQ(result.Report()[0],
            "FAILED after 1.0 s: rank 0 (pid 100) failed first: exited with code 4");
  // Whom we ended, we ended: that is no time of the failure.
  result.duration = absl::Seconds(2);
  result.ranks[0].signalled = SIGTERM;
  EXPECT_EQ(result.Report()[0],
            "FAILED after 2.0 s: rank 0 (pid 100) failed first: exited with code 4");
}

TEST(JobResultTest, WhereAllFailAlikeNobodyIsCalledTheConsequence) {
  JobResult result = RankZeroEndedFirst();
  for (RankResult& rank : result.ranks) rank.exit = RankExit::Exited(4);
  const std::string alike =
      "FAILED after 2.0 s: all 3 ranks failed alike, rank 0 (pid 100) ended first: exited with "
      "code 4 (after 1.0 s)";
  EXPECT_THAT(result.Report(), ElementsAre(alike));
  EXPECT_EQ(result.ExitCode(), 4);
  result.failed_groups = {{"train", "'train' was not set up within 10s", std::nullopt}};
  EXPECT_THAT(result.Report(),
              ElementsAre(alike,
                          "the group \"train\" had failed before: 'train' was not set up "
                          "within 10s"));
}

TEST(JobResultTest, WhereARecordBlamesARankOrMusterEndedOneTheRestIsAConsequence) {
  JobResult recorded = RankZeroEndedFirst();
  for (RankResult& rank : recorded.ranks) rank.exit = RankExit::Exited(4);
  recorded.failed_groups = {{"train", "rank 0: label 17", 0}};
  recorded.BlameByRecord();
  EXPECT_EQ(recorded.Report()[0],
            "FAILED after 2.0 s: rank 0 (pid 100) failed first: exited with code 4 (after 1.0 s)");
  EXPECT_EQ(recorded.Report()[2],
            "consequences of it: rank 1 exited with code 4, rank 2 exited with code 4");
  JobResult ended = RankZeroEndedFirst();
  for (RankResult& rank : ended.ranks) rank.exit = RankExit::Exited(4);
  ended.ranks[2].signalled = SIGTERM;
  EXPECT_THAT(ended.Report()[1], HasSubstr("rank 2 ended by muster (SIGTERM)"));
}

}  // namespace
}  // namespace muster

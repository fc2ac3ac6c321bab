#include "muster/testing/contract/kill_judge.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kGeneration = 7;
const absl::Time kKilled = absl::FromUnixSeconds(1000);

class KillJudgeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int rank = 0; rank < 3; ++rank) judge_.OnReady(rank, kGeneration);
  }

  void KillRankOne(bool group_was_ready = true) {
    judge_.OnDeath({1, 812, group_was_ready, kGeneration, kKilled});
  }
  void Fail(absl::string_view cause) {
    judge_.OnFailed(0, kGeneration, cause, kKilled + absl::Milliseconds(9));
  }
  static std::string Lost(int rank, int pid) {
    return absl::StrCat("all_reduce #3 of train/7: rank ", rank, " (host a, pid ", pid,
                        ") was lost: its connection closed");
  }

  KillJudge judge_{3};
};

TEST_F(KillJudgeTest, AFailureThatNamesTheKilledProcessIsRight) {
  KillRankOne();
  Fail(Lost(1, 812));
  EXPECT_THAT(judge_.delays(), ElementsAre(absl::Milliseconds(9)));
  EXPECT_THAT(judge_.EndRound(), IsEmpty());
}

TEST_F(KillJudgeTest, AFailureThatNamesItsSuccessorAsSuchIsRight) {
  KillRankOne();
  Fail("rank 1 was lost: another process took its place (host a, pid 900)");
  EXPECT_THAT(judge_.EndRound(), IsEmpty());
}

TEST_F(KillJudgeTest, AKillThatNobodyNamesIsMissed) {
  KillRankOne();
  Fail("all_reduce #3 of train/7 did not finish within 10s on rank 0: waits for rank 1");
  EXPECT_THAT(judge_.EndRound(), ElementsAre(HasSubstr("missed: rank 0 in generation 7")));
}

TEST_F(KillJudgeTest, ASuspicionNamesNobody) {
  KillRankOne();
  Fail("lost contact with rank 1: Connection reset by peer (seen by rank 0)");
  EXPECT_THAT(judge_.EndRound(), ElementsAre(HasSubstr("missed: ")));
}

TEST_F(KillJudgeTest, AGroupThatEndsAsIfNothingHadHappenedIsMissed) {
  KillRankOne();
  judge_.OnClosed(2, kGeneration);
  EXPECT_THAT(judge_.EndRound(), ElementsAre(HasSubstr("missed: on rank 2 generation 7 ended")));
}

TEST_F(KillJudgeTest, AGroupThatAllHadAgreedToEndMayEndInGoodOrder) {
  KillRankOne(/*group_was_ready=*/false);
  judge_.OnClosed(0, kGeneration);
  judge_.OnClosed(2, kGeneration);
  EXPECT_THAT(judge_.EndRound(), IsEmpty());
}

TEST_F(KillJudgeTest, ALivingRankIsBlamedWrongly) {
  KillRankOne();
  Fail(Lost(2, 813));
  EXPECT_THAT(judge_.EndRound(), ElementsAre(HasSubstr("blamed wrongly: rank 0")));
}

TEST_F(KillJudgeTest, TheProcessThatTookItsPlaceIsBlamedWrongly) {
  KillRankOne();
  Fail(Lost(1, 900));
  EXPECT_THAT(judge_.EndRound(), ElementsAre(HasSubstr("blamed wrongly: ")));
}

TEST_F(KillJudgeTest, AFailureWithoutAKillIsBlamedWrongly) {
  Fail(Lost(1, 812));
  EXPECT_THAT(judge_.EndRound(), ElementsAre(HasSubstr("(nobody was killed)")));
}

TEST_F(KillJudgeTest, OldNewsIsBlamedWrongly) {
  KillRankOne();
  judge_.EndRound();
  Fail(Lost(1, 812));
  EXPECT_THAT(judge_.EndRound(), ElementsAre(HasSubstr("blamed wrongly: ")));
}

TEST_F(KillJudgeTest, WhatANewProcessLearnsOfTheOldOnesTellsNoDelay) {
  KillRankOne();
  judge_.OnFailed(1, 0, Lost(1, 812), kKilled + absl::Minutes(1));
  EXPECT_THAT(judge_.delays(), IsEmpty());
  EXPECT_THAT(judge_.EndRound(), IsEmpty());
}

TEST_F(KillJudgeTest, AllHaveRecoveredWhenAllWereInAGroupOfTheLatestProcess) {
  EXPECT_TRUE(judge_.Recovered());
  KillRankOne();
  EXPECT_FALSE(judge_.Recovered());
  judge_.OnReady(1, 9);
  judge_.OnReady(0, 8);
  judge_.OnReady(2, 10);
  EXPECT_FALSE(judge_.Recovered());
  judge_.OnReady(0, 9);
  EXPECT_TRUE(judge_.Recovered());
}

}  // namespace
}  // namespace muster::testing

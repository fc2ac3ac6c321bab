#include "muster/core/lifecycle/process_end.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr char kWho[] = "rank 1 (host b, pid 812)";

TEST(ProcessEndTest, WhatAProcessSaysWhenItEndsIsUnderstood) {
  for (const std::string& how :
       {std::string(kExitedWithGroups), std::string(kExitedWithPool),
        absl::StrCat(kExited, "early"), absl::StrCat(kToldToStop, "15 (Terminated)")}) {
    const std::string said = ProcessEnd(kWho, how);
    EXPECT_TRUE(TellsOfAProcessEnd(said)) << said;
    EXPECT_TRUE(SaysThatItsProcessEnds(said, kWho)) << said;
  }
  EXPECT_EQ(ProcessEnd(kWho, kExitedWithGroups),
            "rank 1 (host b, pid 812) exited while its groups were alive");
}

TEST(ProcessEndTest, ASessionThatTheStoreLostHadAProcessThatEnded) {
  EXPECT_TRUE(TellsOfAProcessEnd("rank 1 (host b, pid 812) was lost: killed by signal 9"));
  EXPECT_TRUE(TellsOfAProcessEnd("rank 1 (host a (the old one), pid 812) was lost: x"));
}

TEST(ProcessEndTest, TheEndOfAPoolIsNoEndOfItsProcess) {
  for (const char* cause : {"", "closed", "rank 1", "rank 1 left: \"enough\"",
                            "rank 12 destroyed its pool while it held group a/1"}) {
    EXPECT_FALSE(TellsOfAProcessEnd(cause)) << cause;
    EXPECT_FALSE(SaysThatItsProcessEnds(cause, kWho)) << cause;
  }
  EXPECT_FALSE(
      SaysThatItsProcessEnds(ProcessEnd(kWho, "destroyed its pool while it held 'a/1'"), kWho));
}

// One may quote another: who left because of a third one's end is not at its own.
TEST(ProcessEndTest, TheEndOfAnotherProcessIsNotTakenForThatOfWhomItIsSaid) {
  const std::string quoted =
      "rank 1 (host b, pid 812) left: rank 1 left: \"rank 2 (host c, pid 9) was lost: x\"";
  EXPECT_FALSE(TellsOfAProcessEnd(quoted));
  EXPECT_FALSE(SaysThatItsProcessEnds(quoted, kWho));
  EXPECT_FALSE(SaysThatItsProcessEnds("rank 2 (host c, pid 9) exited while x", kWho));
  EXPECT_FALSE(TellsOfAProcessEnd("rank 1 (host b, pid 812) said it exited while x"));
}

TEST(ProcessEndTest, AnythingElseIsNone) {
  for (const char* cause : {"rank 1 exited while x", "rank x (host b, pid 8) exited while x",
                            "rank 1 (host b, pid ) exited while x", "rank 1 (host b) exited while",
                            "rank 1 (host b, pid 812)exited while x", "rank 1 (host b, pid 812"}) {
    EXPECT_FALSE(TellsOfAProcessEnd(cause)) << cause;
  }
}

}  // namespace
}  // namespace muster

#include "muster/core/launch/rank_environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

TEST(RankEnvironmentTest, ARankLearnsWhoItIsWhatIsServedAndHowWideItsTerminalIs) {
  RankVariables variables;
  variables.rank = 1;
  variables.ranks = 4;
  variables.store_address = "127.0.0.1:41231";
  variables.token_file = "/tmp/token";
  variables.terminal_columns = 100;
  EXPECT_THAT(RankEnvironment(Environment(Environment::Variables{{"HOME", "/h"}}), variables),
              IsSupersetOf({"HOME=/h", "RANK=1", "MUSTER_WORLD_SIZE=4", "LOCAL_RANK=1",
                            "MUSTER_STORE=127.0.0.1:41231", "MUSTER_TOKEN_FILE=/tmp/token",
                            "MUSTER_TERMINAL=1", "COLUMNS=100"}));
}

TEST(RankEnvironmentTest, NothingOfALauncherAroundItIsPassedOn) {
  const Environment around(Environment::Variables{{"MUSTER_STORE", "10.0.0.1:1"},
                                                  {"MUSTER_TOKEN_FILE", "/other"},
                                                  {"MUSTER_TERMINAL", "1"},
                                                  {"RANK", "7"}});
  const auto entries = RankEnvironment(around, RankVariables());
  EXPECT_THAT(entries, Each(Not(StartsWith("MUSTER_STORE="))));
  EXPECT_THAT(entries, Each(Not(StartsWith("MUSTER_TOKEN_FILE="))));
  EXPECT_THAT(entries, Each(Not(StartsWith("MUSTER_TERMINAL="))));
  EXPECT_THAT(entries, Contains("RANK=0"));
}

TEST(RankEnvironmentTest, VariablesForOneRankWin) {
  RankVariables variables;
  variables.more = {{"RANK", "mine"}};
  EXPECT_THAT(RankEnvironment(Environment(Environment::Variables{}), variables),
              Contains("RANK=mine"));
}

}  // namespace
}  // namespace muster

#include "muster/core/platform/environment.h"

#include <unistd.h>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(EnvironmentTest, TellsUnsetFromEmpty) {
  const Environment environment(Environment::Variables{{"EMPTY", ""}, {"RANK", "3"}});
  EXPECT_EQ(environment.Get("RANK"), "3");
  EXPECT_EQ(environment.Get("EMPTY"), "");
  EXPECT_EQ(environment.Get("ABSENT"), std::nullopt);
  EXPECT_EQ(environment.Get(""), std::nullopt);
}

TEST(EnvironmentTest, KeepsEqualsSignsInValuesAndSurvivesOddLines) {
  char plain[] = "OPTIONS=a=1,b=2";
  char duplicate[] = "OPTIONS=second";
  char no_equals[] = "NOTHING";
  char no_name[] = "=C:=C:\\";
  char* lines[] = {plain, duplicate, no_equals, no_name, nullptr};
  char** saved = environ;
  environ = lines;
  const Environment environment = Environment::OfProcess();
  environ = saved;
  EXPECT_EQ(environment.Get("OPTIONS"), "a=1,b=2");
  EXPECT_EQ(environment.variables().size(), 1u);
}

TEST(EnvironmentTest, IsACopyThatLaterChangesDoNotTouch) {
  char before[] = "RANK=0";
  char after[] = "RANK=1";
  char* lines[] = {before, nullptr};
  char** saved = environ;
  environ = lines;
  const Environment environment = Environment::OfProcess();
  lines[0] = after;
  environ = saved;
  EXPECT_EQ(environment.Get("RANK"), "0");
}

}  // namespace
}  // namespace muster

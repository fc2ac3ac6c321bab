// What ranks write arrives whole, also at a slow reader, and ends the job when nobody reads.

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/launcher_fixture.h"

namespace muster {
namespace {

using ::testing::UnorderedElementsAre;

TEST_F(LauncherTest, BothStreamsComeInWholeLinesWithTheirRank) {
  Run(2, {"*:write half ", "*:error careful", "*:print line", "*:write no end"});
  EXPECT_THAT(output_->output,
              UnorderedElementsAre("[0] half line", "[0] no end", "[1] half line", "[1] no end"));
  EXPECT_THAT(output_->errors, UnorderedElementsAre("[0] careful", "[1] careful"));
}

TEST_F(ForkedLauncherTest, NoLineIsLostThoughTheReaderIsSlower) {
  constexpr int kLines = 20000;
  const pid_t launcher = Fork(2, {absl::StrCat("*:lines ", kLines)});
  std::map<std::string, int> next;
  for (int i = 0; i < 2 * kLines; ++i) {
    const std::string line = ReadLine();
    ASSERT_EQ(line.size(), 103u);
    int number = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(4), &number)) << line;
    EXPECT_EQ(number, next[line.substr(0, 4)]++);
  }
  EXPECT_EQ(ReadLine(), "");
  EXPECT_EQ(ExitCodeOf(launcher), 0);
}

TEST_F(ForkedLauncherTest, TheJobEndsWhenNobodyReadsItsOutput) {
  const pid_t launcher = Fork(2, {"*:lines 1000000"});
  EXPECT_NE(ReadLine(), "");
  close(output_fd_);
  EXPECT_EQ(ExitCodeOf(launcher), 128 + SIGPIPE);
}

}  // namespace
}  // namespace muster

// What ranks leave behind is ended and named, and nothing else is.

#include <fcntl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
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

// As `exec muster run ... > >(tee log)`: the shell's `tee` is a child of what the shell became.
TEST_F(ForkedLauncherTest, AReaderThatWasThereBeforeIsSparedWithAllThatItStartsAndGetsEverything) {
  constexpr int kLines = 5000;
  job_.left_grace = absl::ZeroDuration();
  before_ = [](int output) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) _exit(202);
    if (fork() == 0) {
      close(fds[1]);
      char first = 0;
      (void)!read(fds[0], &first, 1);
      // Now the job runs: who reads the rest was not there when it began.
      if (fork() == 0) {
        (void)!write(output, &first, 1);
        char buffer[4096];
        for (ssize_t n; (n = read(fds[0], buffer, sizeof(buffer))) > 0;) {
          (void)!write(output, buffer, static_cast<size_t>(n));
        }
        (void)!write(output, "end\n", 4);
        _exit(0);
      }
      wait(nullptr);
      (void)!write(output, "its parent, too\n", 16);
      _exit(0);
    }
    close(fds[0]);
    close(output);
    return fds[1];
  };
  const pid_t launcher = Fork(1, {absl::StrCat("*:lines ", kLines)});
  for (int i = 0; i < kLines; ++i) ASSERT_EQ(ReadLine().size(), 103u) << i;
  EXPECT_EQ(ReadLine(), "end");
  EXPECT_EQ(ReadLine(), "its parent, too");
  EXPECT_EQ(ExitCodeOf(launcher), 0);
}

}  // namespace
}  // namespace muster

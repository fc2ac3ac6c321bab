// What ranks write arrives whole, also at a slow reader, and ends the job when nobody reads.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/launcher_fixture.h"
#include "muster/core/launch/test_terminal.h"
#include "muster/core/launch/unique_fd.h"
#include "muster/core/platform/timeout_scale.h"

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

TEST_F(ForkedLauncherTest, AFullDiskEndsTheJobAsAFailure) {
  before_ = [](int) { return open("/dev/full", O_WRONLY | O_CLOEXEC); };
  EXPECT_EQ(ExitCodeOf(Fork(2, {"*:print something", "*:wait"})), 1);
}

TEST_F(ForkedLauncherTest, AJobThatLostItsLastWordsIsNoSuccess) {
  before_ = [](int) { return open("/dev/full", O_WRONLY | O_CLOEXEC); };
  EXPECT_EQ(ExitCodeOf(Fork(1, {"*:write no end"})), 1);
}

TEST_F(ForkedLauncherTest, AFileThatMayNotGrowEndsTheJobAsAFailure) {
  std::string path = ::testing::TempDir() + "/outputXXXXXX";
  const UniqueFd file(mkostemp(path.data(), O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  unlink(path.c_str());
  // The ranks have the limit, too, and a sanitizer's runtime writes files of its own.
  constexpr rlim_t kLimit = 64 << 20;
  ASSERT_NE(lseek(file.get(), kLimit - 1000, SEEK_SET), -1);
  before_ = [&](int) {
    const rlimit limit = {kLimit, kLimit};
    setrlimit(RLIMIT_FSIZE, &limit);
    return file.get();
  };
  EXPECT_EQ(ExitCodeOf(Fork(1, {"*:lines 100", "*:wait"})), 1);
}

TEST_F(ForkedLauncherTest, TheTimeoutEndsTheWaitForAReaderWhoDoesNotRead) {
  job_.limits.timeout = TimeoutScale() * absl::Seconds(2);
  job_.limits.failure_grace = absl::Milliseconds(50);
  // More than a pipe holds, less than stops the rank.
  EXPECT_EQ(ExitCodeOf(Fork(1, {"*:lines 2000"})), 124);
  EXPECT_NE(ReadLine(), "");
}

TEST_F(ForkedLauncherTest, TheTimeoutEndsAJobBehindATerminalThatNobodyReads) {
  const TestTerminal terminal;
  if (!terminal.valid()) GTEST_SKIP() << "no pseudo-terminal can be had here";
  job_.limits.timeout = TimeoutScale() * absl::Seconds(2);
  job_.limits.failure_grace = absl::Milliseconds(50);
  before_ = [&](int) { return terminal.fd(); };
  errors_fd_ = terminal.fd();
  EXPECT_EQ(ExitCodeOf(Fork(2, {"*:lines 100000"})), 124);
}

TEST_F(ForkedLauncherTest, TheTimeoutEndsAJobWhoseStreamsShareAPipeThatNobodyReads) {
  job_.limits.timeout = TimeoutScale() * absl::Seconds(2);
  job_.limits.failure_grace = absl::Milliseconds(50);
  before_ = [this](int output) { return errors_fd_ = output; };
  EXPECT_EQ(ExitCodeOf(Fork(2, {"0:lines 100000", "1:error_lines 100000"})), 124);
}

TEST_F(ForkedLauncherTest, OneSignalEndsTheWaitForAReaderOfEitherStream) {
  job_.limits.timeout = absl::InfiniteDuration();
  int nobody_reads[2];
  ASSERT_EQ(pipe2(nobody_reads, O_CLOEXEC), 0);
  errors_fd_ = nobody_reads[1];
  job_.left_grace = absl::ZeroDuration();
  const pid_t launcher = Fork(1, {"*:pid", "*:lines 2000", "*:error_lines 2000"});
  // The rank is gone when its number is: the launcher then waits for its readers alone.
  const pid_t rank = ReadPid();
  while (kill(rank, 0) == 0) sched_yield();
  kill(launcher, SIGTERM);
  EXPECT_EQ(ExitCodeOf(launcher), 0);
  close(nobody_reads[0]);
  close(nobody_reads[1]);
}

// A process that nobody may end (another user's, or as here one outside of the job) can have a
// rank's end of the pipe, and write to it for ever.
TEST_F(ForkedLauncherTest, AWriterThatOutlivesTheRanksDoesNotKeepTheJob) {
  const pid_t launcher = Fork(1, {absl::StrCat("*:on ", SIGUSR1, " 0"), "*:pid", "*:wait"});
  const pid_t rank = ReadPid();
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t stranger = fork();
  if (stranger == 0) {
    const int pipe = open(absl::StrCat("/proc/", rank, "/fd/1").c_str(), O_WRONLY | O_CLOEXEC);
    // More than one read takes, so that it is never found empty.
    fcntl(pipe, F_SETPIPE_SZ, 1 << 20);
    const std::string block(1 << 16, '\n');
    if (write(pipe, block.data(), block.size()) > 0) (void)!write(ready[1], "x", 1);
    while (write(pipe, block.data(), block.size()) > 0) {
    }
    _exit(1);
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  kill(rank, SIGUSR1);
  char buffer[1 << 16];
  while (read(output_fd_, buffer, sizeof(buffer)) > 0) {
  }
  EXPECT_EQ(ExitCodeOf(launcher), 0);
  EXPECT_EQ(ExitCodeOf(stranger), -SIGPIPE);
}

}  // namespace
}  // namespace muster

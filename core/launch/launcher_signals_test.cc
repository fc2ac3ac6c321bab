// The launcher told to stop, by a signal.

#include <signal.h>
#include <unistd.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launcher_fixture.h"
#include "muster/core/launch/process_tree.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::StartsWith;

TEST_F(LauncherTest, ForwardsASignalAndExitsWith128PlusIt) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU}) {
    WhenAllSaid({"[0] up", "[1] up"}, [signal] { kill(getpid(), signal); });
    const JobResult result = Run(2, {absl::StrCat("*:on ", signal, " 0"), "*:print up", "*:wait"});
    EXPECT_EQ(result.ExitCode(), 128 + signal);
    EXPECT_THAT(result.ranks[0].exit->ToString(), "exited with code 0");
    EXPECT_THAT(result.Report(), ElementsAre(StartsWith("stopped by SIG")));
  }
}

TEST_F(LauncherTest, PassesOnAMessageToTheRanksAloneAndEndsNothing) {
  job_.left_grace = absl::ZeroDuration();
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    WhenAllSaid({"[0] up", "[1] up"}, [signal] { kill(getpid(), signal); });
    const JobResult result =
        Run(2, {"*:child", absl::StrCat("*:on ", signal, " 0"), "*:print up", "*:wait"});
    EXPECT_EQ(result.ExitCode(), 0);
    EXPECT_EQ(result.ranks[0].signalled, 0);
    EXPECT_EQ(result.left.size(), 2u) << "what the ranks started got it, too";
  }
}

TEST_F(LauncherTest, ASecondSignalKills) {
  WhenAllSaid({"[0] deaf"}, [] {
    kill(getpid(), SIGTERM);
    // Another one, as two of a kind may merge into one.
    kill(getpid(), SIGINT);
  });
  job_.limits.interrupt_grace = absl::InfiniteDuration();
  const JobResult result = Run(1, {"*:ignore 15", "*:ignore 2", "*:print deaf", "*:wait"});
  EXPECT_EQ(result.ranks[0].exit->ToString(), "killed by signal 9");
  EXPECT_EQ(result.ExitCode() - 128, result.interrupted_by);
}

// As `timeout` does, which signals its child and then the process group.
TEST_F(ForkedLauncherTest, TheSameSignalTwiceAtOnceLeavesTheRanksTheirTime) {
  job_.limits.interrupt_grace = absl::InfiniteDuration();
  const pid_t launcher = Fork(1, {"*:ignore 15", "*:on 10 0", "*:print up", "*:wait"});
  EXPECT_EQ(ReadLine(), "[0] up");
  kill(launcher, SIGTERM);
  kill(launcher, SIGTERM);
  kill(launcher, SIGTERM);
  kill(launcher, SIGUSR1);
  EXPECT_EQ(ExitCodeOf(launcher), 128 + SIGTERM);
}

TEST_F(LauncherTest, ASignalThatWasIgnoredStaysIgnored) {
  signal(SIGHUP, SIG_IGN);
  WhenAllSaid({"[0] up"}, [] { kill(getpid(), SIGHUP); });
  const JobResult result = Run(1, {"*:print up", "*:mask"});
  EXPECT_EQ(result.ExitCode(), 0);
  EXPECT_THAT(output_->output, Contains("[0] blocked [] ignored [1]"));
  signal(SIGHUP, SIG_DFL);
}

TEST_F(ForkedLauncherTest, RanksDieWithALauncherThatIsKilled) {
  const ScopedSubreaper subreaper;
  ASSERT_TRUE(subreaper.works());
  const pid_t launcher = Fork(2, {"*:ignore 15", "*:pid", "*:wait"});
  const std::set<pid_t> ranks = {ReadPid(), ReadPid()};
  kill(launcher, SIGKILL);
  EXPECT_EQ(ExitCodeOf(launcher), -SIGKILL);
  for (const pid_t rank : ranks) EXPECT_EQ(ExitCodeOf(rank), -SIGKILL);
  // What a killed launcher cannot clean up, the next one does.
  EXPECT_EQ(LauncherFolders().size(), 1u);
  Run(1, {});
}

}  // namespace
}  // namespace muster

#include "muster/core/launch/launcher.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launched_store.h"
#include "muster/core/launch/launcher_fixture.h"
#include "muster/core/launch/program.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// With what they are, so that a failure says what was left open.
std::map<int, std::string> OpenDescriptors() {
  std::map<int, std::string> open;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    int fd = 0;
    if (!absl::SimpleAtoi(entry->d_name, &fd) || fd == dirfd(folder)) continue;
    std::error_code error;
    open[fd] = std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd), error).string();
  }
  closedir(folder);
  return open;
}

std::set<int> InheritedDescriptors() {
  std::set<int> open;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    int fd = 0;
    if (!absl::SimpleAtoi(entry->d_name, &fd) || fd == dirfd(folder)) continue;
    if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) open.insert(fd);
  }
  closedir(folder);
  return open;
}

std::string SignalsOfThisProcess() {
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  std::string text;
  for (int signal = 1; signal < 32; ++signal) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    absl::StrAppend(&text, sigismember(&blocked, signal), action.sa_handler == SIG_IGN ? "i" : "-");
  }
  return text;
}

TEST_F(LauncherTest, EachRankKnowsWhoItIs) {
  const JobResult result =
      Run(2, {"*:variable RANK", "*:variable WORLD_SIZE", "*:variable LOCAL_RANK",
              "*:variable LOCAL_WORLD_SIZE", "*:variable MUSTER_RANK",
              "*:variable MUSTER_WORLD_SIZE", "*:variable MUSTER_LOCAL_RANK",
              "*:variable MUSTER_LOCAL_WORLD_SIZE", "*:variable MUSTER_STORE"});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.ExitCode(), 0);
  std::vector<std::string> expected;
  for (const char* rank : {"0", "1"}) {
    for (const char* prefix : {"", "MUSTER_"}) {
      expected.push_back(absl::StrCat("[", rank, "] ", prefix, "RANK=", rank));
      expected.push_back(absl::StrCat("[", rank, "] ", prefix, "WORLD_SIZE=2"));
      expected.push_back(absl::StrCat("[", rank, "] ", prefix, "LOCAL_RANK=", rank));
      expected.push_back(absl::StrCat("[", rank, "] ", prefix, "LOCAL_WORLD_SIZE=2"));
    }
    expected.push_back(absl::StrCat("[", rank, "] MUSTER_STORE=127.0.0.1:41231"));
  }
  EXPECT_THAT(output_->output, ::testing::UnorderedElementsAreArray(expected));
  EXPECT_EQ(store_.world_size, 2);
}

TEST_F(LauncherTest, ARankThatChangesItsFolderFindsTheTokenThoughTmpdirIsRelative) {
  job_.temporary_folder.clear();
  Environment::Variables variables = job_.environment.variables();
  variables["TMPDIR"] = std::filesystem::relative(::testing::TempDir()).string();
  job_.environment = Environment(std::move(variables));
  Run(1, {"*:variable MUSTER_TOKEN_FILE"});
  EXPECT_THAT(output_->output, ElementsAre(StartsWith("[0] MUSTER_TOKEN_FILE=/")));
}

TEST_F(LauncherTest, TheTokenIsInAFileThatOnlyTheUserCanReadAndNowhereElse) {
  Run(1, {"*:file MUSTER_TOKEN_FILE", "*:environment", "*:cmdline"});
  EXPECT_EQ(store_.token.size(), 64u);
  ASSERT_GE(output_->output.size(), 4u);
  EXPECT_EQ(output_->output[0], "[0] mode 600 in 700");
  EXPECT_EQ(output_->output[1], absl::StrCat("[0] ", store_.token));
  const std::string rest = absl::StrJoin(output_->output.begin() + 2, output_->output.end(), "\n");
  EXPECT_THAT(rest, AllOf(HasSubstr("MUSTER_TOKEN_FILE="), HasSubstr("*:cmdline")));
  EXPECT_THAT(rest, Not(HasSubstr(store_.token)));
  EXPECT_TRUE(store_.destroyed);
}

TEST_F(LauncherTest, TimeBeginsWhenTheRanksHaveBeenStarted) {
  absl::Time last_started;
  job_.rank_variables = [&](int) {
    last_started = MonotonicNow();
    return std::map<std::string, std::string>();
  };
  const JobResult result = Run(2, {});
  EXPECT_GE(result.start, last_started);
  EXPECT_LE(result.start + result.duration, MonotonicNow());
  for (const RankResult& rank : result.ranks) EXPECT_LE(rank.ended_after, result.duration);
}

TEST_F(LauncherTest, WithoutAStoreTheVariablesOfALauncherAroundItStayAway) {
  job_.store = nullptr;
  job_.environment =
      Environment({{"MUSTER_STORE", "x"}, {"MUSTER_TOKEN_FILE", "y"}, {"PATH", "/bin"}});
  Run(1, {"*:variable MUSTER_STORE", "*:variable MUSTER_TOKEN_FILE", "*:variable PATH"});
  EXPECT_THAT(output_->output, ElementsAre("[0] MUSTER_STORE unset", "[0] MUSTER_TOKEN_FILE unset",
                                           "[0] PATH=/bin"));
}

TEST_F(LauncherTest, ARankCanGetVariablesOfItsOwn) {
  job_.rank_variables = [](int rank) {
    return std::map<std::string, std::string>{{"DEVICE", absl::StrCat("gpu", rank)}};
  };
  Run(2, {"*:variable DEVICE"});
  EXPECT_THAT(output_->output, UnorderedElementsAre("[0] DEVICE=gpu0", "[1] DEVICE=gpu1"));
}

TEST_F(LauncherTest, RanksStartWithTheSignalsDescriptorsAndInputOfAFreshProgram) {
  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &usr2, nullptr), 0);
  const std::string before = SignalsOfThisProcess();
  const std::map<int, std::string> open_before = OpenDescriptors();
  const std::set<int> inherited = InheritedDescriptors();
  Run(1, {"*:mask", "*:fds", "*:input"});
  EXPECT_THAT(output_->output, ElementsAre("[0] blocked [12] ignored []",
                                           absl::StrCat("[0] fds ", absl::StrJoin(inherited, ",")),
                                           "[0] stdin has 0 bytes"));
  // Nor does the launcher's own process keep anything.
  EXPECT_EQ(SignalsOfThisProcess(), before);
  EXPECT_EQ(OpenDescriptors(), open_before);
  pthread_sigmask(SIG_UNBLOCK, &usr2, nullptr);
}

TEST_F(LauncherTest, ChildrenAreReapedThoughTheParentIgnoredTheirEnd) {
  signal(SIGCHLD, SIG_IGN);
  const JobResult result = Run(1, {"*:mask", "*:exit 5"});
  EXPECT_EQ(result.ExitCode(), 5);
  EXPECT_THAT(output_->output, ElementsAre("[0] blocked [] ignored [17]"));
  EXPECT_EQ(signal(SIGCHLD, SIG_DFL), SIG_IGN);
}

TEST_F(LauncherTest, TheFirstFailureDecidesAndTheStoreIsToldWhy) {
  job_.limits.failure_grace = TimeoutScale() * absl::Seconds(6);
  // Only once both are up, so that who is first is certain.
  WhenAllSaid({"[0] up", "[1] up"}, [this] { kill(pids_[1], SIGUSR1); });
  const JobResult result = Run(2, {"1:on 10 3", "0:on 15 9", "*:pid", "*:print up", "*:wait"});
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.ExitCode(), 3);
  EXPECT_THAT(store_.declared, ElementsAre("1 exited with code 3", "0 exited with code 9"));
  EXPECT_EQ(result.ranks[0].signalled, SIGTERM);
  EXPECT_THAT(result.Report(),
              ElementsAre(AllOf(StartsWith("FAILED after "), HasSubstr("rank 1 (pid "),
                                HasSubstr(") failed first: exited with code 3")),
                          "consequences of it: rank 0 ended by muster (SIGTERM)"));
}

TEST_F(LauncherTest, ARankKilledBySignalGives128PlusIt) {
  job_.limits.failure_grace = absl::Milliseconds(200);
  const JobResult result = Run(3, {"2:die 9", "*:wait"});
  EXPECT_EQ(result.first_failed, 2);
  EXPECT_EQ(result.first_reason, "killed by signal 9");
  EXPECT_EQ(result.ExitCode(), 137);
  EXPECT_EQ(store_.declared[0], "2 killed by signal 9");
}

TEST_F(LauncherTest, WhoIgnoresSigtermIsKilled) {
  job_.limits.failure_grace = absl::Milliseconds(400);
  WhenAllSaid({"[0] up", "[1] up"}, [this] { kill(pids_[1], SIGKILL); });
  const JobResult result = Run(2, {"0:ignore 15", "*:pid", "*:print up", "*:wait"});
  EXPECT_EQ(result.ranks[0].exit->ToString(), "killed by signal 9");
}

TEST_F(LauncherTest, TheStoreIsToldOfEachEndAndAllEndingWellIsSuccess) {
  const JobResult result = Run(3, {"1:print late", "*:exit 0"});
  EXPECT_EQ(result.ExitCode(), 0);
  EXPECT_THAT(store_.declared, UnorderedElementsAre("0 exited with code 0", "1 exited with code 0",
                                                    "2 exited with code 0"));
  EXPECT_THAT(result.Report(), IsEmpty());
}

TEST_F(LauncherTest, AStoppedRankThatTheStoreLostIsEndedAndBlamed) {
  job_.limits.failure_grace = absl::Milliseconds(400);
  WhenAllSaid({"[0] up", "[1] stopping"}, [this] { store_.on_session(1, "no heartbeat for 2 s"); });
  const JobResult result =
      Run(2, {"0:on 15 1", "0:print up", "0:wait", "1:print stopping", "1:stop"});
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.first_reason, "no heartbeat for 2 s");
  EXPECT_NE(result.ExitCode(), 0);
}

TEST_F(LauncherTest, ARankThatTheStoreLostAndThatCameAgainIsLeftAlone) {
  job_.limits.suspicion_grace = absl::ZeroDuration();
  WhenAllSaid({"[0] up", "[1] up"}, [this] {
    store_.on_session(1, "its connection closed");
    store_.on_session(1, std::nullopt);
  });
  EXPECT_EQ(Run(2, {"*:print up", "*:exit 0"}).ExitCode(), 0);
}

TEST_F(LauncherTest, TheTimeoutEndsTheJobAndNamesWhoStillRan) {
  job_.limits.timeout = absl::Milliseconds(300);
  const JobResult result = Run(2, {"1:wait"});
  EXPECT_EQ(result.ExitCode(), 124);
  // Rank 0 has nothing to do, but may be slow to start.
  EXPECT_THAT(result.running_at_timeout, Contains(1));
}

TEST_F(LauncherTest, BadOptionsAndProgramsAreErrorsBeforeAnythingStarts) {
  const std::string text = absl::StrCat(::testing::TempDir(), "/not a program");
  std::ofstream(text) << "text\n";
  const auto error = [&](int ranks, std::vector<std::string> command) {
    job_.ranks = ranks;
    job_.command = std::move(command);
    const absl::Status status = RunJob(job_).status();
    ExpectNothingLeft();
    EXPECT_EQ(store_.world_size, 0) << "a store was started";
    return absl::StrCat(ExitCodeOfLaunchError(status), " ", status.message());
  };
  EXPECT_EQ(error(0, {"/bin/true"}), "125 the number of ranks is 0: expected 1 to 4096");
  EXPECT_EQ(error(5000, {"/bin/true"}), "125 the number of ranks is 5000: expected 1 to 4096");
  EXPECT_EQ(error(1, {}), "125 no program is given: expected its path or name");
  EXPECT_THAT(error(1, {"/no/such"}), StartsWith("127 program \"/no/such\" not found"));
  EXPECT_THAT(error(1, {"no-such-program"}),
              StartsWith("127 program \"no-such-program\" not found in PATH"));
  EXPECT_THAT(error(1, {""}), StartsWith("127 program \"\""));
  EXPECT_THAT(error(1, {::testing::TempDir()}),
              AllOf(StartsWith("126 "), HasSubstr("is a directory")));
  EXPECT_THAT(error(1, {text}), AllOf(StartsWith("126 "), HasSubstr("is not executable")));
}

TEST_F(LauncherTest, WhatTheGroupsRecordedBeforeTheFirstFailureIsReported) {
  store_.failed_groups = {{"train", "rank 0: no such shape", 0}};
  WhenAllSaid({"[0] up", "[1] up"}, [this] { kill(pids_[1], SIGKILL); });
  job_.limits.failure_grace = absl::Milliseconds(100);
  const JobResult result = Run(2, {"*:pid", "*:print up", "*:wait"});
  ASSERT_GE(result.Report().size(), 2u);
  EXPECT_EQ(result.Report()[1], "the group \"train\" had failed before: rank 0: no such shape");
  EXPECT_EQ(store_.asked_after, 0u) << "the store was told of the end before";
}

TEST_F(LauncherTest, TheRankThatTheGroupsRecordedIsBlamedThoughAnotherEndedBefore) {
  store_.failed_groups = {{"train", "rank 0: no such shape", 0}};
  WhenAllSaid({"[0] up", "[1] up"}, [this] { kill(pids_[1], SIGUSR1); });
  job_.limits.failure_grace = absl::Milliseconds(100);
  const JobResult result = Run(2, {"1:on 10 4", "*:pid", "*:print up", "*:wait"});
  EXPECT_EQ(result.first_failed, 0);
  EXPECT_THAT(
      result.Report(),
      ElementsAre(AllOf(HasSubstr("rank 0 (pid "),
                        HasSubstr(") failed first: rank 0: no such shape; ended by muster")),
                  HasSubstr("\"train\" had failed before: "),
                  "consequences of it: rank 1 exited with code 4"));
}

TEST_F(LauncherTest, AProgramThatTheSystemRefusesIsAnErrorAndLeavesNothing) {
  const auto script = [](const std::string& name, const std::string& content) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
    std::ofstream(path) << content;
    chmod(path.c_str(), 0755);
    return path;
  };
  job_.ranks = 2;
  job_.command = {script("garbage", "\x01\x02\x03\x04")};
  absl::Status status = RunJob(job_).status();
  EXPECT_EQ(ExitCodeOfLaunchError(status), 126);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be executed: Exec format error"));
  ExpectNothingLeft();
  job_.command = {script("no interpreter", "#!/no/such/interpreter\n")};
  status = RunJob(job_).status();
  EXPECT_EQ(ExitCodeOfLaunchError(status), 126);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the interpreter that it names is missing"));
  ExpectNothingLeft();
}

TEST_F(LauncherTest, AStoreThatDoesNotStartIsTheError) {
  job_.store = [](LaunchedStoreRequest) -> absl::StatusOr<std::unique_ptr<LaunchedStore>> {
    return absl::UnavailableError("no port");
  };
  job_.command = {"/bin/true"};
  EXPECT_EQ(RunJob(job_).status(), absl::UnavailableError("no port"));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace muster

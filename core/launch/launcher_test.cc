#include "muster/core/launch/launcher.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/process_tree.h"
#include "muster/core/launch/program.h"
#include "muster/core/launch/test_rank.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// Keeps every line with its rank, and tells the test of each: on the launcher's own thread, so that
// what a test does then happens at a known moment.
class Capture final : public OutputSink {
 public:
  explicit Capture(int ranks) : prefixed_(ranks, -1, -1) {}

  void Write(int rank, OutputStream stream, absl::string_view bytes) override {
    prefixed_.Write(rank, stream, bytes);
    Drain();
  }
  void Finish(int rank, OutputStream stream) override {
    ++finished;
    prefixed_.Finish(rank, stream);
    Drain();
  }

  std::function<void(absl::string_view)> on_line;
  std::vector<std::string> output;
  std::vector<std::string> errors;
  int finished = 0;

 private:
  void Drain() {
    for (OutputQueue* queue : prefixed_.Queues()) {
      std::vector<std::string>& lines = queue == prefixed_.Queues()[0] ? output : errors;
      for (absl::string_view line : absl::StrSplit(queue->pending(), '\n', absl::SkipEmpty())) {
        lines.emplace_back(line);
        if (on_line) on_line(line);
      }
      queue->Drop();
    }
  }

  PrefixedOutput prefixed_;
};

struct StoreLog {
  std::vector<std::string> declared;
  std::function<void(int, absl::string_view)> on_lost;
  int world_size = 0;
  std::string token;
  bool destroyed = false;
};

class FakeStore final : public LaunchedStore {
 public:
  explicit FakeStore(StoreLog* log) : log_(log) {}
  ~FakeStore() override {
    log_->on_lost = nullptr;  // holds a descriptor of the launcher
    log_->destroyed = true;
  }
  std::string address() const override { return "127.0.0.1:41231"; }
  void DeclareLost(int rank, absl::string_view reason) override {
    log_->declared.push_back(absl::StrCat(rank, " ", reason));
  }

 private:
  StoreLog* const log_;
};

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

class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    // Nothing here depends on being fast: the graces are short where their end is what is tested.
    job_.limits.failure_grace = TimeoutScale() * absl::Seconds(20);
    job_.limits.timeout = TimeoutScale() * absl::Seconds(40);
    job_.environment = Environment::OfProcess();
    job_.temporary_folder = ::testing::TempDir();
    job_.store =
        [this](LaunchedStoreRequest request) -> absl::StatusOr<std::unique_ptr<LaunchedStore>> {
      store_.on_lost = request.on_lost;
      store_.world_size = request.world_size;
      store_.token = request.token;
      return std::make_unique<FakeStore>(&store_);
    };
  }

  JobResult Run(int ranks, std::vector<std::string> steps) {
    output_ = std::make_unique<Capture>(ranks);
    output_->on_line = [this](absl::string_view line) {
      std::string pid(line);
      for (int rank = 0; rank < job_.ranks; ++rank) {
        if (absl::StartsWith(line, absl::StrCat("[", rank, "] pid "))) {
          EXPECT_TRUE(absl::SimpleAtoi(pid.substr(pid.rfind(' ')), &pids_[rank]));
        }
      }
      if (awaited_.erase(std::string(line)) != 0 && awaited_.empty()) when_said_();
    };
    job_.ranks = ranks;
    job_.command = TestRankCommand(std::move(steps));
    job_.output = output_.get();
    absl::StatusOr<JobResult> result = RunJob(job_);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(output_->finished, 2 * ranks);
    ExpectNothingLeft();
    return result.ok() ? *result : JobResult();
  }

  // Runs `then` on the launcher's thread once all these lines have come.
  void WhenAllSaid(std::set<std::string> lines, std::function<void()> then) {
    awaited_ = std::move(lines);
    when_said_ = std::move(then);
  }

  static void ExpectNothingLeft() {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
    EXPECT_THAT(LivingDescendants(), IsEmpty());
    for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir())) {
      EXPECT_FALSE(absl::StartsWith(entry.path().filename().string(), "muster-")) << entry.path();
    }
  }

  JobOptions job_;
  StoreLog store_;
  std::unique_ptr<Capture> output_;
  std::map<int, pid_t> pids_;  // of ranks that printed it
  std::set<std::string> awaited_;
  std::function<void()> when_said_;
};

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

TEST_F(LauncherTest, TheTokenIsInAFileThatOnlyTheUserCanReadAndNowhereElse) {
  Run(1, {"*:file MUSTER_TOKEN_FILE", "*:variable MUSTER_TOKEN_FILE"});
  ASSERT_EQ(output_->output.size(), 2u);
  EXPECT_EQ(output_->output[0], "[0] mode 600 in 700");
  EXPECT_EQ(store_.token.size(), 64u);
  EXPECT_TRUE(store_.destroyed);
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

TEST_F(LauncherTest, BothStreamsComeInWholeLinesWithTheirRank) {
  Run(2, {"*:write half ", "*:error careful", "*:print line", "*:write no end"});
  EXPECT_THAT(output_->output,
              UnorderedElementsAre("[0] half line", "[0] no end", "[1] half line", "[1] no end"));
  EXPECT_THAT(output_->errors, UnorderedElementsAre("[0] careful", "[1] careful"));
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

TEST_F(LauncherTest, AllEndingWellNeedsNoGoodbyeToTheStore) {
  const JobResult result = Run(3, {"1:print late", "*:exit 0"});
  EXPECT_EQ(result.ExitCode(), 0);
  EXPECT_THAT(store_.declared, IsEmpty());
  EXPECT_THAT(result.Report(), IsEmpty());
}

TEST_F(LauncherTest, AStoppedRankThatTheStoreLostIsEndedAndBlamed) {
  job_.limits.failure_grace = absl::Milliseconds(400);
  WhenAllSaid({"[0] up", "[1] stopping"}, [this] { store_.on_lost(1, "no heartbeat for 2 s"); });
  const JobResult result =
      Run(2, {"0:on 15 1", "0:print up", "0:wait", "1:print stopping", "1:stop"});
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.first_reason, "no heartbeat for 2 s");
  EXPECT_NE(result.ExitCode(), 0);
}

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

TEST_F(LauncherTest, ForwardsASignalAndExitsWith128PlusIt) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    WhenAllSaid({"[0] up", "[1] up"}, [signal] { kill(getpid(), signal); });
    const JobResult result = Run(2, {absl::StrCat("*:on ", signal, " 0"), "*:print up", "*:wait"});
    EXPECT_EQ(result.ExitCode(), 128 + signal);
    EXPECT_THAT(result.ranks[0].exit->ToString(), "exited with code 0");
    EXPECT_THAT(result.Report(), ElementsAre(StartsWith("stopped by SIG")));
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

TEST_F(LauncherTest, ASignalThatWasIgnoredStaysIgnored) {
  signal(SIGHUP, SIG_IGN);
  WhenAllSaid({"[0] up"}, [] { kill(getpid(), SIGHUP); });
  const JobResult result = Run(1, {"*:print up", "*:mask"});
  EXPECT_EQ(result.ExitCode(), 0);
  EXPECT_THAT(output_->output, Contains("[0] blocked [] ignored [1]"));
  signal(SIGHUP, SIG_DFL);
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

// The launcher in a process of its own, so that it can be killed, and its output read as it comes.
class ForkedLauncherTest : public LauncherTest {
 protected:
  // Exits with the job's code; its output goes to the read end that it gives.
  pid_t Fork(int ranks, std::vector<std::string> steps) {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    job_.ranks = ranks;
    job_.command = TestRankCommand(std::move(steps));
    const pid_t pid = fork();
    if (pid == 0) {
      close(fds[0]);
      PrefixedOutput output(ranks, fds[1], STDERR_FILENO);
      job_.output = &output;
      absl::StatusOr<JobResult> result = RunJob(job_);
      _exit(result.ok() ? result->ExitCode() : 200);
    }
    close(fds[1]);
    output_fd_ = fds[0];
    return pid;
  }

  // "" at the end.
  std::string ReadLine() {
    std::string line;
    char c;
    while (read(output_fd_, &c, 1) == 1 && c != '\n') line.push_back(c);
    return line;
  }

  static int ExitCodeOf(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  void TearDown() override { close(output_fd_); }

  int output_fd_ = -1;
};

TEST_F(ForkedLauncherTest, RanksDieWithALauncherThatIsKilled) {
  const ScopedSubreaper subreaper;
  ASSERT_TRUE(subreaper.works());
  const pid_t launcher = Fork(2, {"*:ignore 15", "*:pid", "*:wait"});
  std::set<pid_t> ranks;
  for (int i = 0; i < 2; ++i) {
    const std::string line = ReadLine();
    int pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &pid)) << line;
    ranks.insert(pid);
  }
  kill(launcher, SIGKILL);
  EXPECT_EQ(ExitCodeOf(launcher), -SIGKILL);
  for (const pid_t rank : ranks) EXPECT_EQ(ExitCodeOf(rank), -SIGKILL);
  // What a killed launcher cannot clean up: its private folder.
  for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir())) {
    if (absl::StartsWith(entry.path().filename().string(), "muster-")) {
      std::filesystem::remove_all(entry.path());
    }
  }
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

int main(int argc, char** argv) {
  if (muster::IsTestRank(argc, argv)) return muster::TestRankMain(argc, argv);
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}

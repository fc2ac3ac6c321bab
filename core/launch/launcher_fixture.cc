#include "muster/core/launch/launcher_fixture.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/launched_store.h"
#include "muster/core/launch/output_queue.h"
#include "muster/core/launch/process_tree.h"
#include "muster/core/launch/test_rank.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

class FakeStore final : public LaunchedStore {
 public:
  explicit FakeStore(StoreLog* log) : log_(log) {}
  ~FakeStore() override {
    log_->on_session = nullptr;  // holds a descriptor of the launcher
    log_->destroyed = true;
  }
  std::string address() const override { return "127.0.0.1:41231"; }
  void DeclareLost(int rank, absl::string_view reason) override {
    log_->declared.push_back(absl::StrCat(rank, " ", reason));
  }
  std::vector<FailedGroup> FailedGroups() const override {
    log_->asked_after = std::min(log_->asked_after, log_->declared.size());
    return log_->failed_groups;
  }

 private:
  StoreLog* const log_;
};

}  // namespace

void Capture::Write(int rank, OutputStream stream, absl::string_view bytes) {
  prefixed_.Write(rank, stream, bytes);
  Drain();
}

void Capture::Finish(int rank, OutputStream stream) {
  ++finished;
  prefixed_.Finish(rank, stream);
  Drain();
}

void Capture::Drain() {
  for (OutputQueue* queue : prefixed_.Queues()) {
    std::vector<std::string>& lines = queue == prefixed_.Queues()[0] ? output : errors;
    for (absl::string_view line : absl::StrSplit(queue->pending(), '\n', absl::SkipEmpty())) {
      lines.emplace_back(line);
      if (on_line) on_line(line);
    }
    queue->Drop();
  }
}

LauncherTest::LauncherTest() {
  // Nothing here depends on being fast: the graces are short where their end is what is tested.
  job_.limits.failure_grace = TimeoutScale() * absl::Seconds(20);
  job_.limits.timeout = TimeoutScale() * absl::Seconds(40);
  job_.environment = Environment::OfProcess();
  job_.temporary_folder = ::testing::TempDir();
  job_.store =
      [this](LaunchedStoreRequest request) -> absl::StatusOr<std::unique_ptr<LaunchedStore>> {
    store_.on_session = request.on_session;
    store_.world_size = request.world_size;
    store_.token = request.token;
    return std::make_unique<FakeStore>(&store_);
  };
}

JobResult LauncherTest::Run(int ranks, std::vector<std::string> steps) {
  output_ = std::make_unique<Capture>(ranks);
  output_->on_line = [this](absl::string_view line) {
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (!absl::StartsWith(line, absl::StrCat("[", rank, "] pid "))) continue;
      EXPECT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(' ')), &pids_[rank]));
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

void LauncherTest::WhenAllSaid(std::set<std::string> lines, std::function<void()> then) {
  awaited_ = std::move(lines);
  when_said_ = std::move(then);
}

void LauncherTest::ExpectNothingLeft() {
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_THAT(LivingDescendants(), ::testing::IsEmpty());
  EXPECT_THAT(LauncherFolders(), ::testing::IsEmpty());
}

std::vector<std::string> LauncherTest::LauncherFolders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir())) {
    if (absl::StartsWith(entry.path().filename().string(), "muster-")) {
      folders.push_back(entry.path().string());
    }
  }
  return folders;
}

pid_t ForkedLauncherTest::Fork(int ranks, std::vector<std::string> steps) {
  int fds[2];
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  job_.ranks = ranks;
  job_.command = TestRankCommand(std::move(steps));
  const pid_t pid = fork();
  if (pid == 0) {
    close(fds[0]);
    const int output_fd = before_ ? before_(fds[1]) : fds[1];
    PrefixedOutput output(ranks, output_fd, errors_fd_);
    job_.output = &output;
    absl::StatusOr<JobResult> result = RunJob(job_);
    if (!result.ok()) _exit(200);
    _exit(result->left.empty() ? result->ExitCode() : kLeftSome);
  }
  close(fds[1]);
  output_fd_ = fds[0];
  return pid;
}

std::string ForkedLauncherTest::ReadLine() {
  std::string line;
  char c;
  while (read(output_fd_, &c, 1) == 1 && c != '\n') line.push_back(c);
  return line;
}

pid_t ForkedLauncherTest::ReadPid() {
  const std::string line = ReadLine();
  int pid = -1;
  EXPECT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &pid)) << line;
  return pid;
}

int ForkedLauncherTest::ExitCodeOf(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void ForkedLauncherTest::TearDown() { close(output_fd_); }

}  // namespace muster

int main(int argc, char** argv) {
  if (muster::IsTestRank(argc, argv)) return muster::TestRankMain(argc, argv);
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}

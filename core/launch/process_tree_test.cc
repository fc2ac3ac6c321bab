#include "muster/core/launch/process_tree.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

bool MainThreadHasEnded() {
  std::ifstream in("/proc/self/stat");
  const std::string stat((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return absl::StrContains(stat, ") Z ");
}

// A child whose main thread has ended and whose other one waits for ever.
class HalfEndedChild {
 public:
  HalfEndedChild() {
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    pid_ = fork();
    if (pid_ == 0) {
      alarm(60);  // no orphan, whatever becomes of the test
      std::thread([fds] {
        while (!MainThreadHasEnded()) std::this_thread::yield();
        if (write(fds[1], "!", 1) != 1) _exit(1);
        while (true) pause();
      }).detach();
      syscall(SYS_exit, 0);  // the thread alone, and without unwinding the test
    }
    close(fds[1]);
    char said = 0;
    EXPECT_EQ(read(fds[0], &said, 1), 1);
    close(fds[0]);
  }
  ~HalfEndedChild() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  HalfEndedChild(const HalfEndedChild&) = delete;
  HalfEndedChild& operator=(const HalfEndedChild&) = delete;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

TEST(ProcessTreeTest, AProcessWhoseMainThreadHasEndedIsAliveWhileAnotherOfItsThreadsIs) {
  const HalfEndedChild child;
  EXPECT_EQ(waitpid(child.pid(), nullptr, WNOHANG), 0) << "the kernel agrees";
  EXPECT_THAT(LivingDescendants(), ElementsAre(Field(&ProcessInfo::pid, child.pid())));
}

TEST(ProcessTreeTest, WhatIsNoLongerAliveCanBeWaitedForAtOnce) {
  for (int i = 0; i < 50; ++i) {
    const HalfEndedChild child;
    EXPECT_EQ(KillChildren(), 1);
    while (!LivingDescendants().empty()) std::this_thread::yield();
    EXPECT_EQ(waitpid(child.pid(), nullptr, WNOHANG), child.pid());
  }
  EXPECT_THAT(LivingDescendants(), IsEmpty());
}

// As the ranks of a test call themselves.
TEST(ProcessTreeTest, WhoStartsItselfAgainIsNamedByItsProgram) {
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sh", "/proc/self/exe", "-c", "kill -STOP $$; exit", nullptr);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  const std::string program = std::filesystem::canonical("/bin/sh").filename().string();
  EXPECT_THAT(
      LivingDescendants(),
      ElementsAre(Field(&ProcessInfo::command, absl::StrCat(program, " -c kill -STOP $$; exit"))));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST(ProcessTreeTest, AZombieIsNotAlive) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(LivingDescendants(), IsEmpty());
  EXPECT_EQ(KillChildren(), 0);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST(ProcessTreeTest, WhatIsSparedIsNeitherNamedNorKilled) {
  const HalfEndedChild spared;
  const ProcessIds before = DescendantsNow();
  const HalfEndedChild other;
  EXPECT_THAT(LivingDescendants(before), ElementsAre(Field(&ProcessInfo::pid, other.pid())));
  EXPECT_EQ(KillChildren(before), 1);
  EXPECT_EQ(waitpid(spared.pid(), nullptr, WNOHANG), 0);
}

}  // namespace
}  // namespace muster

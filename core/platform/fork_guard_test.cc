#include "muster/core/platform/fork_guard.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace muster {
namespace {

// Runs `check` in a forked child and tells whether it returned true.
bool InChild(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1; }

class ForkGuardTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_), 0); }
  void TearDown() override {
    close(fds_[0]);
    close(fds_[1]);
  }
  int fds_[2] = {-1, -1};
};

TEST_F(ForkGuardTest, AGuardedDescriptorIsClosedInTheChildAndStaysOpenHere) {
  const ForkGuardedFd guarded(fds_[0]);
  EXPECT_TRUE(guarded.guarded());
  EXPECT_TRUE(InChild([&] { return !IsOpen(fds_[0]) && IsOpen(fds_[1]); }));
  EXPECT_TRUE(IsOpen(fds_[0]));
}

TEST_F(ForkGuardTest, ADescriptorIsGuardedOnlyWhileItsGuardLives) {
  ForkGuardedFd first(fds_[0]);
  ForkGuardedFd second(std::move(first));
  EXPECT_FALSE(
      first.guarded());  // NOLINT(bugprone-use-after-move): that it is empty is the promise
  EXPECT_TRUE(InChild([&] { return !IsOpen(fds_[0]); }));
  second.Reset();
  EXPECT_TRUE(InChild([&] { return IsOpen(fds_[0]); }));
  second = ForkGuardedFd(fds_[1]);
  EXPECT_TRUE(InChild([&] { return !IsOpen(fds_[1]); }));
}

TEST_F(ForkGuardTest, AGuardThatEndsInTheChildLeavesTheChildsOwnDescriptorsAlone) {
  auto guarded = std::make_unique<ForkGuardedFd>(fds_[0]);
  EXPECT_TRUE(InChild([&] {
    // The number is free again here, and the child's own connection takes it and the slot.
    const int own = dup(fds_[1]);
    const ForkGuardedFd own_guard(own);
    guarded.reset();
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(IsOpen(own) ? 1 : 0);
    int status = 0;
    // The grandchild has it closed: the guard that ended was not the one of the child's own.
    return waitpid(grandchild, &status, 0) == grandchild && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0 && own == fds_[0] && IsOpen(own);
  }));
}

TEST_F(ForkGuardTest, TheParentsDeathIsSeenThroughALivingChild) {
  // A process with a connection forks a child and dies; the peer must see the end at once although
  // the child lives on.
  int go_on[2];
  ASSERT_EQ(pipe2(go_on, O_CLOEXEC), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(fds_[1]);
    close(go_on[1]);
    const ForkGuardedFd guarded(fds_[0]);
    if (fork() == 0) {
      char byte;
      while (read(go_on[0], &byte, 1) > 0) {
      }
    }
    _exit(0);
  }
  close(fds_[0]);
  fds_[0] = -1;
  close(go_on[0]);
  char byte;
  EXPECT_EQ(read(fds_[1], &byte, 1), 0);
  close(go_on[1]);
  waitpid(parent, nullptr, 0);
}

TEST_F(ForkGuardTest, AChildKnowsThatItIsOne) {
  const uint64_t here = ForkGeneration();
  EXPECT_TRUE(InChild([&] { return ForkGeneration() == here + 1; }));
  EXPECT_EQ(ForkGeneration(), here);
}

TEST_F(ForkGuardTest, NothingToGuardIsFine) {
  EXPECT_FALSE(ForkGuardedFd().guarded());
  EXPECT_FALSE(ForkGuardedFd(-1).guarded());
}

}  // namespace
}  // namespace muster

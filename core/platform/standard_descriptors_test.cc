#include "muster/core/platform/standard_descriptors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "muster/core/platform/control_thread.h"

namespace muster {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

bool IsNull(int fd) {
  struct stat here = {};
  struct stat null = {};
  return fstat(fd, &here) == 0 && stat("/dev/null", &null) == 0 && here.st_rdev == null.st_rdev &&
         S_ISCHR(here.st_mode);
}

// What `check` says in a child without 0 and 1.
template <class Check>
bool WithoutInputAndOutput(const Check& check) {
  const pid_t child = fork();
  if (child == 0) {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    _exit(check() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(StandardDescriptorsTest, WhatIsClosedIsNullForItsLifetimeAndWhatIsOpenIsLeftAlone) {
  EXPECT_TRUE(WithoutInputAndOutput([] {
    const int before = fcntl(STDERR_FILENO, F_GETFL);
    {
      StandardDescriptors standard;
      if (!IsNull(STDIN_FILENO) || !IsNull(STDOUT_FILENO)) return false;
      if (fcntl(STDERR_FILENO, F_GETFL) != before) return false;
    }
    return !IsOpen(STDIN_FILENO) && !IsOpen(STDOUT_FILENO) && IsOpen(STDERR_FILENO);
  }));
}

TEST(StandardDescriptorsTest, NothingHappensWhereAllAreOpen) {
  const int next = dup(STDERR_FILENO);
  close(next);
  StandardDescriptors standard;
  const int after = dup(STDERR_FILENO);
  EXPECT_EQ(after, next);
  close(after);
}

TEST(StandardDescriptorsTest, TheControlThreadTakesNoneOfThem) {
  EXPECT_TRUE(WithoutInputAndOutput([] {
    auto control = ControlThread::Start();
    return control.ok() && !IsOpen(STDIN_FILENO) && !IsOpen(STDOUT_FILENO);
  }));
}

}  // namespace
}  // namespace muster

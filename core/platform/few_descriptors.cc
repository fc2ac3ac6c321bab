#include "muster/core/platform/few_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace muster {

// The limit is one of numbers: those below the highest that is in use are filled.
FewDescriptors::FewDescriptors(rlim_t count) {
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
  int highest = static_cast<int>(before_.rlim_cur) - 1;
  while (highest > 0 && fcntl(highest, F_GETFD) < 0) --highest;
  while (true) {
    const int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    EXPECT_GE(fd, 0);
    if (fd < 0) break;
    if (fd > highest) {
      close(fd);
      break;
    }
    fill_.push_back(fd);
  }
  rlimit few = before_;
  few.rlim_cur = static_cast<rlim_t>(highest) + 1 + count;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
}

FewDescriptors::~FewDescriptors() {
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0);
  for (const int fd : fill_) close(fd);
}

}  // namespace muster

// A pseudo-terminal that nobody watches, for tests.
#ifndef MUSTER_CORE_LAUNCH_TEST_TERMINAL_H_
#define MUSTER_CORE_LAUNCH_TEST_TERMINAL_H_

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "muster/core/launch/unique_fd.h"

namespace muster {

class TestTerminal {
 public:
  TestTerminal() : screen_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    if (!screen_.valid() || grantpt(screen_.get()) != 0 || unlockpt(screen_.get()) != 0) return;
    char name[128];
    if (ptsname_r(screen_.get(), name, sizeof(name)) != 0) return;
    program_ = UniqueFd(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  }

  // False where no pseudo-terminal can be had.
  bool valid() const { return program_.valid(); }
  // The program's end.
  int fd() const { return program_.get(); }
  // Where what the program writes can be read.
  int screen() const { return screen_.get(); }

 private:
  UniqueFd screen_;
  UniqueFd program_;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_TEST_TERMINAL_H_

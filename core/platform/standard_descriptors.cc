#include "muster/core/platform/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace muster {

StandardDescriptors::StandardDescriptors() {
  // open() takes the lowest number that is free.
  for (;;) {
    const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    if (fd > STDERR_FILENO) {
      close(fd);
      return;
    }
    held_.push_back(fd);
  }
}

StandardDescriptors::~StandardDescriptors() {
  for (const int fd : held_) close(fd);
}

}  // namespace muster

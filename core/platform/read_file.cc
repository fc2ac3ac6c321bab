#include "muster/core/platform/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const auto error = [&path] {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return error();
  const absl::Cleanup close_it = [fd] { close(fd); };
  std::string content;
  char block[4096];
  while (true) {
    const ssize_t got = read(fd, block, sizeof(block));
    if (got == 0) return content;
    if (got > 0) {
      content.append(block, got);
    } else if (errno != EINTR) {
      return error();
    }
  }
}

}  // namespace muster

#include "muster/core/observe/error_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

absl::Status Failed(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

std::string Text(absl::string_view error, absl::Time when) {
  const std::string text(error);
  const nlohmann::json json = {
      {"message",
       {{"message", text},
        {"extraInfo",
         {{"py_callstack", text}, {"timestamp", absl::StrCat(absl::ToUnixSeconds(when))}}}}}};
  // Bytes that are no UTF-8 are replaced: torchrun fails itself over a file that it cannot parse.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::Status WriteNew(const std::string& path, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return Failed("create", path);
  absl::Status status;
  while (!text.empty() && status.ok()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      status = Failed("write", path);
    }
  }
  if (close(fd) != 0 && status.ok()) status = Failed("write", path);
  return status;
}

// A rename replaces what is there, a link does not; but not every file system has links.
absl::Status PutInPlace(const std::string& from, const std::string& path) {
  if (link(from.c_str(), path.c_str()) == 0 || errno == EEXIST) return absl::OkStatus();
  struct stat there = {};
  if (lstat(path.c_str(), &there) == 0) return absl::OkStatus();
  return rename(from.c_str(), path.c_str()) == 0 ? absl::OkStatus() : Failed("write", path);
}

}  // namespace

absl::Status WriteErrorFile(const std::string& path, absl::string_view error, absl::Time when) {
  const std::string temporary = absl::StrCat(path, ".muster-", getpid());
  absl::Status status = WriteNew(temporary, Text(error, when));
  if (status.ok()) status = PutInPlace(temporary, path);
  unlink(temporary.c_str());
  return status;
}

}  // namespace muster

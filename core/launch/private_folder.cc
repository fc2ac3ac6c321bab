#include "muster/core/launch/private_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/log/log.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {

namespace {

constexpr absl::string_view kPrefix = "muster-";
// In each folder, and locked by its owner: no folder without it is ours to remove.
constexpr char kLockFile[] = ".owner";

void Remove(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) LOG(WARNING) << "cannot remove " << path << ": " << error.message();
}

// The lock of the folder `path`, held; invalid when another holds it, or has removed it since.
UniqueFd Lock(const std::string& path, int flags) {
  UniqueFd lock(open(absl::StrCat(path, "/", kLockFile).c_str(),
                     O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (!lock.valid() || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return UniqueFd();
  struct stat file = {};
  if (fstat(lock.get(), &file) != 0 || !S_ISREG(file.st_mode) || file.st_nlink == 0) {
    return UniqueFd();
  }
  return lock;
}

// Whether it is what Create makes: a folder, not a link to one, of this user and for it alone. It
// inherits the set-group-ID bit of its parent.
bool IsOurs(const std::string& path) {
  struct stat folder = {};
  return lstat(path.c_str(), &folder) == 0 && S_ISDIR(folder.st_mode) &&
         folder.st_uid == geteuid() && (folder.st_mode & 0777) == 0700;
}

void RemoveThoseOfTheDead(const std::string& parent) {
  std::error_code error;
  std::filesystem::directory_iterator entry(parent, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!absl::StartsWith(entry->path().filename().string(), kPrefix) || !IsOurs(path)) continue;
    // Held until it is gone, so that two who clean up do not meet.
    const UniqueFd lock = Lock(path, 0);
    if (lock.valid()) Remove(path);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Create(absl::string_view parent) {
  RemoveThoseOfTheDead(std::string(parent));
  // Who cleans up may come between the making of a folder and its lock; where a file system has no
  // locks nobody cleans up.
  constexpr int kTries = 10;
  for (int i = 1; i <= kTries; ++i) {
    std::string path = absl::StrCat(parent, "/", kPrefix, "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) break;
    UniqueFd lock = Lock(path, O_CREAT);
    lock.MoveAboveStandard();
    if (lock.valid() || i == kTries) {
      return absl::WrapUnique(new PrivateFolder(std::move(path), std::move(lock)));
    }
    Remove(path);
  }
  return absl::UnavailableError(absl::StrCat("cannot make a temporary folder in \"", parent, "\": ",
                                             strerror(errno), "; TMPDIR says where they are made"));
}

PrivateFolder::PrivateFolder(std::string path, UniqueFd lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

PrivateFolder::~PrivateFolder() { Remove(path_); }

absl::StatusOr<std::string> PrivateFolder::WriteFile(absl::string_view name,
                                                     absl::string_view content) const {
  std::string path = absl::StrCat(path_, "/", name);
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const auto failed = [&](int error) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(error)));
  };
  if (!fd.valid()) return failed(errno);
  while (!content.empty()) {
    const ssize_t n = write(fd.get(), content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(errno);
    content.remove_prefix(static_cast<size_t>(n));
  }
  return path;
}

}  // namespace muster

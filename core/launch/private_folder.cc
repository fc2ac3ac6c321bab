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
#include "muster/core/platform/environment.h"

namespace muster {

namespace {

constexpr absl::string_view kPrefix = "muster-";
// In each folder, and locked by its owner: no folder without it is ours to remove.
constexpr char kLockFile[] = ".owner";

std::error_code Remove(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error;
}

void RemoveOrLog(const std::string& path) {
  if (const std::error_code error = Remove(path)) {
    LOG(WARNING) << "cannot remove " << path << ": " << error.message();
  }
}

// One that was made just now: needs no descriptor, of which there may be none.
void RemoveNew(const std::string& path) {
  unlink(absl::StrCat(path, "/", kLockFile).c_str());
  rmdir(path.c_str());
}

struct Lock {
  UniqueFd held;       // invalid when it is not
  bool lost = false;   // another holds it, or has removed it since
  bool exists = true;  // false where the file system has no locks
  int error = 0;       // errno, in all other cases
};

// Tries to take the lock of the folder `path`.
Lock TakeLock(const std::string& path, int flags) {
  Lock lock;
  UniqueFd file(open(absl::StrCat(path, "/", kLockFile).c_str(),
                     O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  struct stat seen = {};
  if (!file.valid()) {
    lock.lost = errno == ENOENT;
    lock.error = errno;
  } else if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    lock.lost = errno == EWOULDBLOCK;
    lock.exists = lock.lost;
  } else if (fstat(file.get(), &seen) != 0 || !S_ISREG(seen.st_mode) || seen.st_nlink == 0) {
    lock.lost = true;
  } else {
    file.MoveAboveStandard();
    lock.error = file.valid() ? 0 : errno;
    lock.held = std::move(file);
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
    const Lock lock = TakeLock(path, 0);
    if (lock.held.valid()) RemoveOrLog(path);
  }
}

}  // namespace

std::string TemporaryFolder(const Environment& environment) {
  const std::string folder = environment.Get("TMPDIR").value_or("");
  return folder.empty() ? "/tmp" : folder;
}

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Create(absl::string_view parent) {
  RemoveThoseOfTheDead(std::string(parent));
  // Who cleans up may come between the making of a folder and its lock; where a file system has no
  // locks nobody cleans up.
  constexpr int kTries = 10;
  int error = EEXIST;  // as for mkdtemp: others came in between each time
  for (int i = 0; i < kTries; ++i) {
    std::string path = absl::StrCat(parent, "/", kPrefix, "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) {
      error = errno;
      break;
    }
    Lock lock = TakeLock(path, O_CREAT);
    if (lock.held.valid() || !lock.exists) {
      return absl::WrapUnique(new PrivateFolder(std::move(path), std::move(lock.held)));
    }
    RemoveNew(path);
    if (!lock.lost) {
      error = lock.error;
      break;
    }
  }
  const bool no_descriptor = error == EMFILE || error == ENFILE;
  return absl::UnavailableError(
      absl::StrCat("cannot make a temporary folder in \"", parent, "\": ", strerror(error),
                   no_descriptor ? "; `ulimit -n` says how many descriptors there are"
                                 : "; TMPDIR says where they are made"));
}

PrivateFolder::PrivateFolder(std::string path, UniqueFd lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

PrivateFolder::~PrivateFolder() {
  if (!Remove(path_)) return;
  // Without one more descriptor it cannot be read, and the lock has one.
  lock_.Reset();
  RemoveOrLog(path_);
}

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

#include "muster/core/launch/private_folder.h"

#include <fcntl.h>
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
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Create(absl::string_view parent) {
  std::string path = absl::StrCat(parent, "/muster-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot make a temporary folder in \"", parent,
                                               "\": ", strerror(errno),
                                               "; TMPDIR says where they are made"));
  }
  return absl::WrapUnique(new PrivateFolder(std::move(path)));
}

PrivateFolder::PrivateFolder(std::string path) : path_(std::move(path)) {}

PrivateFolder::~PrivateFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) LOG(WARNING) << "cannot remove " << path_ << ": " << error.message();
}

absl::StatusOr<std::string> PrivateFolder::WriteFile(absl::string_view name,
                                                     absl::string_view content) const {
  const std::string path = absl::StrCat(path_, "/", name);
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

#include "muster/core/platform/users_path.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {

std::string UsersPath(const Environment& environment, const std::string& path) {
  const std::string folder = environment.Get(kUsersFolder).value_or("");
  return folder.empty() || absl::StartsWith(path, "/") ? path : absl::StrCat(folder, "/", path);
}

}  // namespace muster

#include "muster/core/launch/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text), "\"");
}

// Of a relative path: the user may take another folder for the working directory.
std::string LookedForIn(absl::string_view path) {
  if (absl::StartsWith(path, "/")) return "";
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  return error ? "" : absl::StrCat(" in ", folder.string());
}

// OK when `path` can be run.
absl::Status Check(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    const int error = errno;
    if (error == EACCES) {
      return absl::PermissionDeniedError(
          absl::StrCat("program ", Quoted(path), " cannot be reached: ", strerror(error)));
    }
    return absl::NotFoundError(absl::StrCat("program ", Quoted(path), " not found",
                                            LookedForIn(path), ": ", strerror(error)));
  }
  if (S_ISDIR(info.st_mode)) {
    return absl::PermissionDeniedError(
        absl::StrCat("program ", Quoted(path), " is a directory: expected an executable file"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "program ", Quoted(path), " is not a regular file: expected an executable file"));
  }
  // access() lets root execute what nobody may; exec does not.
  if (access(path.c_str(), X_OK) != 0 || (info.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "program ", Quoted(path), " is not executable: chmod +x it, or name its interpreter"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FindProgram(absl::string_view name, absl::string_view search_path) {
  if (name.empty()) {
    return absl::NotFoundError("program \"\" not found: expected a path or a name");
  }
  if (absl::StrContains(name, '\0')) {
    return absl::NotFoundError(
        absl::StrCat("program ", Quoted(name), " not found: it holds a null"));
  }
  if (absl::StrContains(name, '/')) {
    absl::Status status = Check(std::string(name));
    if (!status.ok()) return status;
    return std::string(name);
  }
  absl::Status refused;
  for (const absl::string_view folder : absl::StrSplit(search_path, ':')) {
    // As exec does: an empty entry is the working directory.
    std::string path = folder.empty() ? absl::StrCat("./", name) : absl::StrCat(folder, "/", name);
    absl::Status status = Check(path);
    if (status.ok()) return path;
    struct stat info = {};
    const bool folder_of_that_name = stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    if (refused.ok() && absl::IsPermissionDenied(status) && !folder_of_that_name) refused = status;
  }
  if (!refused.ok()) return refused;
  return absl::NotFoundError(absl::StrCat("program ", Quoted(name), " not found in PATH (",
                                          search_path, "): for a file of this folder, write ",
                                          Quoted(absl::StrCat("./", name))));
}

int ExitCodeOfLaunchError(const absl::Status& status) {
  if (status.ok()) return 0;
  if (absl::IsNotFound(status)) return 127;
  if (absl::IsPermissionDenied(status)) return 126;
  return 125;
}

}  // namespace muster

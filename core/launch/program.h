// Finds the program of a job before anything starts, so that a mistyped name is one clear line and
// not N ranks that die.
#ifndef MUSTER_CORE_LAUNCH_PROGRAM_H_
#define MUSTER_CORE_LAUNCH_PROGRAM_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// The file that a shell would run for `name`: a path when it holds a slash, else the first match in
// `search_path` ("/usr/bin:/bin"). NotFound when there is none, PermissionDenied when what is there
// is a directory or not executable; both say which file.
absl::StatusOr<std::string> FindProgram(absl::string_view name, absl::string_view search_path);

// What a shell exits with when it cannot run a program: 127 not found, 126 not executable; 125 for
// any other error of a launcher.
int ExitCodeOfLaunchError(const absl::Status& status);

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_PROGRAM_H_

// What a relative path means under `bazel run`.
#ifndef MUSTER_CORE_PLATFORM_USERS_PATH_H_
#define MUSTER_CORE_PLATFORM_USERS_PATH_H_

#include <string>

#include "muster/core/platform/environment.h"

namespace muster {

// Where `bazel run`, which starts programs in a folder of its own, says where the user is.
inline constexpr char kUsersFolder[] = "BUILD_WORKING_DIRECTORY";

// `path` as the user who typed it means it: a relative one in the user's folder, where known.
std::string UsersPath(const Environment& environment, const std::string& path);

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_USERS_PATH_H_

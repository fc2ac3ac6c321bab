// A file's whole content, read without streams: their iterators throw when a read fails, as it does
// in /proc when the process ends between the open and the read.
#ifndef MUSTER_CORE_PLATFORM_READ_FILE_H_
#define MUSTER_CORE_PLATFORM_READ_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace muster {

// For what is small and no pipe. Errors have errno's code and name the path:
// "cannot read /proc/812/stat: No such process".
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_READ_FILE_H_

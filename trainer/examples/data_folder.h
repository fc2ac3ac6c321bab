// Where the example's four files are.
#ifndef MUSTER_TRAINER_EXAMPLES_DATA_FOLDER_H_
#define MUSTER_TRAINER_EXAMPLES_DATA_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/platform/environment.h"

namespace muster {

// The folder of Fashion-MNIST among the files that Bazel put beside this program (its runfiles).
// NotFound: the folders that were tried and what to do.
absl::StatusOr<std::string> FindBundledData(const Environment& environment,
                                            const std::string& program);

// NotFound naming the first of the four files that is not in `folder`.
absl::Status CheckDataFolder(const std::string& folder);

}  // namespace muster

#endif  // MUSTER_TRAINER_EXAMPLES_DATA_FOLDER_H_

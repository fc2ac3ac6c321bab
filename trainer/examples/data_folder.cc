#include "muster/trainer/examples/data_folder.h"

#include <unistd.h>

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "muster/trainer/examples/bundled_data.h"
#include "muster/trainer/examples/image_data.h"

namespace muster {

absl::StatusOr<std::string> FindBundledData(const Environment& environment,
                                            const std::string& program) {
  // One of the files as Bazel names it: external/<repository>/<file>; among the runfiles the first
  // part is missing.
  absl::string_view folder = absl::StripPrefix(kBundledDataFile, "external/");
  folder = folder.substr(0, folder.rfind('/'));
  std::vector<std::string> tried;
  for (const char* variable : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
    const std::optional<std::string> root = environment.Get(variable);
    if (root.has_value()) tried.push_back(absl::StrCat(*root, "/", folder));
  }
  tried.push_back(absl::StrCat(program, ".runfiles/", folder));
  for (const std::string& candidate : tried) {
    if (CheckDataFolder(candidate).ok()) return candidate;
  }
  return absl::NotFoundError(absl::StrCat(
      "the data is not beside this program (looked in ", absl::StrJoin(tried, ", "),
      "): start it by bazel run, or give --data=DIR with the four Fashion-MNIST files"));
}

absl::Status CheckDataFolder(const std::string& folder) {
  for (const std::string& name : ImageData::FileNames()) {
    if (access(absl::StrCat(folder, "/", name).c_str(), R_OK) != 0) {
      return absl::NotFoundError(absl::StrCat(
          folder, ": cannot read ", name, ": give the folder of the four Fashion-MNIST files (",
          ImageData::FileNames()[0], ", ...; Debian: package dataset-fashion-mnist)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster

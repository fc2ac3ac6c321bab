// A folder that only this user can enter, gone with its owner: for the job's secret.
//
// A process that is killed cannot remove its folder; the next one that makes a folder in the same
// place does. Whose owner lives is told by a lock that ends with the process, so neither numbers
// nor times decide.
#ifndef MUSTER_CORE_LAUNCH_PRIVATE_FOLDER_H_
#define MUSTER_CORE_LAUNCH_PRIVATE_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/launch/unique_fd.h"
#include "muster/core/platform/environment.h"

namespace muster {

// TMPDIR, else /tmp.
std::string TemporaryFolder(const Environment& environment);

class PrivateFolder {
 public:
  // A new folder with mode 0700 inside `parent`. Removes those of this user's dead processes there.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Create(absl::string_view parent);
  // Removes it with all that is in it.
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }

  // Writes a new file with mode 0600 and gives its path.
  absl::StatusOr<std::string> WriteFile(absl::string_view name, absl::string_view content) const;

 private:
  PrivateFolder(std::string path, UniqueFd lock);

  const std::string path_;
  UniqueFd lock_;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_PRIVATE_FOLDER_H_

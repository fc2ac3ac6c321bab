// A folder that only this user can enter, gone with its owner: for the job's secret.
#ifndef MUSTER_CORE_LAUNCH_PRIVATE_FOLDER_H_
#define MUSTER_CORE_LAUNCH_PRIVATE_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

class PrivateFolder {
 public:
  // A new folder with mode 0700 inside `parent`.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Create(absl::string_view parent);
  // Removes it with all that is in it.
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }

  // Writes a new file with mode 0600 and gives its path.
  absl::StatusOr<std::string> WriteFile(absl::string_view name, absl::string_view content) const;

 private:
  explicit PrivateFolder(std::string path);
  const std::string path_;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_PRIVATE_FOLDER_H_

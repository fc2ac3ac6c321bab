// A folder for the unix sockets of a test. Bazel's own for a test has too long a path for them.
#ifndef MUSTER_CORE_STORE_SOCKET_FOLDER_H_
#define MUSTER_CORE_STORE_SOCKET_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "muster/core/platform/endpoint.h"

namespace muster::store_testing {

// Of mode 0700; gone with this object.
class SocketFolder {
 public:
  SocketFolder() { EXPECT_NE(mkdtemp(path_.data()), nullptr) << path_; }
  ~SocketFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;

  std::string Path(absl::string_view name) const { return absl::StrCat(path_, "/", name); }
  // "unix:/tmp/socket-x7a9Qz/store"
  std::string Address(absl::string_view name) const { return UnixAddress(Path(name)); }

 private:
  std::string path_ = "/tmp/socket-XXXXXX";
};

}  // namespace muster::store_testing

#endif  // MUSTER_CORE_STORE_SOCKET_FOLDER_H_

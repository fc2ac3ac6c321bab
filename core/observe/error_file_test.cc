#include "muster/core/observe/error_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>  // NOLINT(build/c++11): absl has no thread

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/read_file.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

const absl::Time kWhen = absl::FromUnixSeconds(1764540000) + absl::Milliseconds(999);

class ErrorFileTest : public ::testing::Test {
 protected:
  ErrorFileTest() { mkdir(folder_.c_str(), 0755); }
  ~ErrorFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Read() const {
    absl::StatusOr<std::string> text = ReadFile(path_);
    return text.ok() ? *text : std::string(text.status().message());
  }
  size_t FilesInFolder() const {
    size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++files;
    return files;
  }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/errors-", getpid());
  const std::string path_ = folder_ + "/error.json";
};

// As torchrun reads it: message.extraInfo.timestamp by int(), message.extraInfo.py_callstack or
// message.message to print.
TEST_F(ErrorFileTest, HasTheFormThatTorchrunReads) {
  ASSERT_TRUE(WriteErrorFile(path_, "group train/1: rank 1 left: \"label 17\"", kWhen).ok());
  const nlohmann::json json = nlohmann::json::parse(Read(), nullptr, false);
  ASSERT_TRUE(json.is_object()) << Read();
  const nlohmann::json& message = json["message"];
  EXPECT_EQ(message["message"], "group train/1: rank 1 left: \"label 17\"");
  EXPECT_EQ(message["extraInfo"]["py_callstack"], message["message"]);
  EXPECT_EQ(message["extraInfo"]["timestamp"], "1764540000");
  EXPECT_EQ(FilesInFolder(), 1u) << "no temporary file is left";
}

TEST_F(ErrorFileTest, TheFirstErrorStays) {
  ASSERT_TRUE(WriteErrorFile(path_, "first", kWhen).ok());
  const std::string before = Read();
  EXPECT_TRUE(WriteErrorFile(path_, "second", kWhen).ok());
  EXPECT_EQ(Read(), before);
  EXPECT_EQ(FilesInFolder(), 1u);
}

TEST_F(ErrorFileTest, BytesThatAreNoTextDoNotMakeItUnreadable) {
  ASSERT_TRUE(WriteErrorFile(path_, "a\xff\nb\x01", kWhen).ok());
  EXPECT_TRUE(nlohmann::json::parse(Read(), nullptr, false).is_object()) << Read();
}

TEST_F(ErrorFileTest, SaysWhyItCannotBeWrittenAndLeavesNothing) {
  const absl::Status status = WriteErrorFile(folder_ + "/missing/error.json", "x", kWhen);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_TRUE(absl::StartsWith(status.message(), absl::StrCat("cannot create ", folder_)))
      << status;
  EXPECT_EQ(FilesInFolder(), 0u);
}

TEST_F(ErrorFileTest, WhoeverReadsMeanwhileSeesItWholeOrNotAtAll) {
  const std::string error(1 << 20, 'x');
  std::atomic<bool> written{false};
  std::thread writer([&] {
    EXPECT_TRUE(WriteErrorFile(path_, error, kWhen).ok());
    written = true;
  });
  bool last = false;
  while (!last) {
    last = written;
    if (access(path_.c_str(), F_OK) != 0) continue;
    EXPECT_TRUE(nlohmann::json::parse(Read(), nullptr, false).is_object());
  }
  writer.join();
}

}  // namespace
}  // namespace muster

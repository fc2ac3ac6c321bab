#include "muster/core/launch/program.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class ProgramTest : public ::testing::Test {
 protected:
  std::string Folder(const std::string& name) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
    std::filesystem::create_directories(path);
    return path;
  }
  std::string File(const std::string& path, mode_t mode) {
    std::ofstream(path) << "#!/bin/sh\n";
    chmod(path.c_str(), mode);
    return path;
  }
  std::string Found(absl::string_view name, absl::string_view path) {
    absl::StatusOr<std::string> found = FindProgram(name, path);
    return found.ok()
               ? *found
               : absl::StrCat(ExitCodeOfLaunchError(found.status()), " ", found.status().message());
  }
};

TEST_F(ProgramTest, TheFirstExecutableInPathWins) {
  const std::string a = Folder("first a"), b = Folder("first b"), c = Folder("first c");
  File(a + "/tool", 0644);
  std::filesystem::create_directories(b + "/tool");
  File(c + "/tool", 0755);
  EXPECT_EQ(Found("tool", a + ":" + b + ":" + c), c + "/tool");
}

TEST_F(ProgramTest, WhatIsThereButCannotBeRunIsTheReason) {
  const std::string a = Folder("denied a"), b = Folder("denied b");
  File(b + "/tool", 0644);
  EXPECT_EQ(
      Found("tool", a + ":" + b),
      "126 program \"" + b + "/tool\" is not executable: chmod +x it, or name its interpreter");
}

TEST_F(ProgramTest, ANameThatIsNowhereTellsWhereItWasLookedFor) {
  EXPECT_EQ(Found("muster-none", "/bin:/usr/bin"),
            "127 program \"muster-none\" not found in PATH (/bin:/usr/bin): for a file of this "
            "folder, write \"./muster-none\"");
}

TEST_F(ProgramTest, APathIsTakenAsItIs) {
  const std::string path = File(Folder("with space") + "/my tool", 0755);
  EXPECT_EQ(Found(path, ""), path);
  EXPECT_THAT(Found(path + "x", "/bin"), HasSubstr("127 program"));
  EXPECT_THAT(Found(path + "/x", "/bin"), HasSubstr("Not a directory"));
  EXPECT_THAT(Found("/dev/null", ""), HasSubstr("126 program \"/dev/null\" is not a regular file"));
  EXPECT_THAT(Found("/", ""), HasSubstr("126 program \"/\" is a directory"));
}

TEST_F(ProgramTest, ARelativePathThatIsNowhereTellsTheFolder) {
  EXPECT_EQ(Found("none/tool", "/bin"),
            absl::StrCat("127 program \"none/tool\" not found in ",
                         std::filesystem::current_path().string(), ": No such file or directory"));
  EXPECT_THAT(Found("/none/tool", "/bin"), HasSubstr("\"/none/tool\" not found: "));
}

TEST_F(ProgramTest, NamesThatCannotBeAreRefused) {
  EXPECT_THAT(Found("", "/bin"), HasSubstr("127 program \"\""));
  EXPECT_THAT(Found(absl::string_view("a\0b", 3), "/bin"), HasSubstr("holds a null"));
}

}  // namespace
}  // namespace muster

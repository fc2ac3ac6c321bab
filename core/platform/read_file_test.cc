#include "muster/core/platform/read_file.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ReadFileTest, EveryByteIsRead) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/file");
  for (const std::string& content :
       {std::string(), std::string("a\0b\r\n", 5), std::string(1 << 20, 'x') + "\n"}) {
    std::ofstream(path, std::ios::binary) << content;
    const absl::StatusOr<std::string> read = ReadFile(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, content);
  }
}

TEST(ReadFileTest, WhatIsNotThereOrCannotBeReadIsAnErrorThatNamesIt) {
  const absl::Status missing = ReadFile("/no/such/file").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "cannot read /no/such/file: No such file or directory");
  // Opens, and cannot be read: as the file in /proc of a process that ends in between.
  EXPECT_EQ(ReadFile("/").status().message(), "cannot read /: Is a directory");
}

}  // namespace
}  // namespace muster

// What becomes of the file that --report names.
#include "muster/trainer/examples/report.h"

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ReportTest, TheFileIsReplaced) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/report.json");
  Report report;
  report.test_accuracy = 0.25;
  ASSERT_TRUE(WriteReport(path, report).ok());
  report.test_accuracy = 0.5;
  EXPECT_TRUE(CheckReport(path).ok());
  ASSERT_TRUE(WriteReport(path, report).ok());
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  EXPECT_EQ(content.str(), report.ToJson());
  EXPECT_THAT(content.str(), HasSubstr("\"test_accuracy\": 0.5"));
}

TEST(ReportTest, APipeIsRefusedSinceItsReaderMayNeverCome) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/pipe");
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(CheckReport(path).message(), HasSubstr("pipe: is a pipe or a socket: "));
}

// The content fits into the stream's buffer: the disk says no when the file is closed.
TEST(ReportTest, AFullDiskIsAnErrorThatSaysSo) {
  const absl::Status status = WriteReport("/dev/full", Report());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("--report=/dev/full: cannot write: No space left on device: free space"));
}

TEST(ReportTest, WhatCannotBeWrittenIsSaidBeforeTheWorkAsAfterIt) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/no such folder");
  for (const std::string& path : {absl::StrCat(folder, "/r.json"), ::testing::TempDir()}) {
    for (const absl::Status& status : {CheckReport(path), WriteReport(path, Report())}) {
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr(absl::StrCat("--report=", path)), HasSubstr("give a file")));
    }
  }
}

TEST(ReportTest, CheckingChangesNothing) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/not yet.json");
  std::filesystem::remove(path);
  EXPECT_TRUE(CheckReport(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ReportTest, WhatIsLeftIsListedWithTheKeys) {
  Report report;
  report.groups_created = 1;
  EXPECT_THAT(report.Summary("train"),
              AllOf(HasSubstr("group train: created once"), HasSubstr("left: nothing")));
  report.left_keys = 2;
  EXPECT_THAT(report.Summary("train"), HasSubstr("left: 2 keys in the store"));
  report.left.fds = 3;
  EXPECT_THAT(report.Summary("train"), HasSubstr("left: 3 fds, 2 keys in the store"));
}

}  // namespace
}  // namespace muster

#include "muster/tools/bench/report.h"

#include <dirent.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/read_file.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kCase[] = "create_destroy_2_ranks";
const std::vector<std::string>& Subjects() {
  static const auto& subjects =
      *new std::vector<std::string>{"muster/reference", "muster/gloo", "gloo"};
  return subjects;
}

std::vector<Sample> Samples() {
  return {{kCase, "gloo", 100}, {kCase, "muster/gloo", 110},
          {kCase, "gloo", 300}, {kCase, "muster/gloo", 130},
          {kCase, "gloo", 200}, {kCase, "muster/reference", 50}};
}

Report OneSuite() {
  Report report({/*seed=*/7, /*ranks=*/2, /*repetitions=*/3});
  EXPECT_EQ(report.Add("lifecycle", Subjects(), Samples()), absl::OkStatus());
  return report;
}

TEST(ReportTest, JsonHasEverySubjectWithItsUnitAndTheRatiosByName) {
  Report report = OneSuite();
  report.LeaveOut("torch", "not installed, left out");
  const nlohmann::json json = nlohmann::json::parse(report.Json());
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["left_out"]["torch"], "not installed, left out");
  ASSERT_THAT(json["results"], SizeIs(3));
  const nlohmann::json& row = json["results"][1];
  EXPECT_EQ(row["suite"], "lifecycle");
  EXPECT_EQ(row["case"], kCase);
  EXPECT_EQ(row["subject"], "muster/gloo");
  EXPECT_EQ(row["median"], 120);
  EXPECT_EQ(row["p10"], 110);
  EXPECT_EQ(row["p90"], 130);
  EXPECT_EQ(row["unit"], "us");
  EXPECT_EQ(row["samples"], 2);
  ASSERT_THAT(json["ratios"], SizeIs(3));
  EXPECT_EQ(json["ratios"][absl::StrCat("lifecycle/", kCase, ": muster/gloo : gloo")], 0.6);
  EXPECT_EQ(json["ratios"][absl::StrCat("lifecycle/", kCase, ": muster/reference : gloo")], 0.25);
  EXPECT_EQ(json["ratios"][absl::StrCat("lifecycle/", kCase, ": muster/gloo : muster/reference")],
            2.4);
}

TEST(ReportTest, TheTableFitsATerminalAndSaysWhatWasLeftOut) {
  Report report = OneSuite();
  report.LeaveOut("torch", "not installed, left out");
  const std::string table = report.Table();
  EXPECT_THAT(table,
              AllOf(HasSubstr("lifecycle/create_destroy_2_ranks"), HasSubstr("median us"),
                    HasSubstr("  muster/gloo  "), HasSubstr("torch: not installed, left out\n"),
                    HasSubstr("muster/gloo : gloo"), HasSubstr("0.600"),
                    HasSubstr("X : Y 0.5 means that X takes half the time of Y"),
                    Not(HasSubstr("openmpi"))));
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(table, '\n'))) {
    EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(ReportTest, TheTableSaysWhatIsNotTheSameInOpenMpisLifecycle) {
  const auto table = [](const std::string& suite) {
    Report report({1, 2, 3});
    EXPECT_TRUE(report.Add(suite, {"openmpi"}, {{kCase, "openmpi", 10}}).ok());
    return report.Table();
  };
  const std::string note =
      "openmpi: dup and free of a connected communicator, no connections are made\n";
  EXPECT_THAT(table("lifecycle"), HasSubstr(note));
  EXPECT_THAT(table("collective"), Not(HasSubstr(note)));
}

TEST(ReportTest, ASubjectWithoutASampleIsNoResult) {
  Report report({1, 2, 3});
  const absl::Status status = report.Add("lifecycle", {"gloo", "torch"}, Samples());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("lifecycle/create_destroy_2_ranks, torch: "));
  EXPECT_FALSE(report.Add("lifecycle", {"gloo"}, {}).ok());
}

int FilesIn(const std::string& folder) {
  DIR* const opened = opendir(folder.c_str());
  int files = 0;
  while (readdir(opened) != nullptr) ++files;
  closedir(opened);
  return files - 2;
}

TEST(WriteFileAtomicallyTest, ReplacesTheFileAndLeavesNothingBesideIt) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/results.json");
  ASSERT_EQ(WriteFileAtomically(path, "old"), absl::OkStatus());
  const int files = FilesIn(::testing::TempDir());
  ASSERT_EQ(WriteFileAtomically(path, "new content"), absl::OkStatus());
  EXPECT_EQ(ReadFile(path).value_or(""), "new content");
  EXPECT_EQ(FilesIn(::testing::TempDir()), files);
}

TEST(WriteFileAtomicallyTest, WhatCannotBeWrittenIsNamedAndNothingIsLeft) {
  const absl::Status no_folder = WriteFileAtomically("/nonexistent/results.json", "x");
  EXPECT_EQ(no_folder.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(no_folder.message(), HasSubstr("cannot write /nonexistent/results.json"));
  // A folder in its place: the rename fails.
  const int files = FilesIn(::testing::TempDir());
  EXPECT_FALSE(WriteFileAtomically(absl::StrCat(::testing::TempDir(), "/."), "x").ok());
  EXPECT_EQ(FilesIn(::testing::TempDir()), files);
}

}  // namespace
}  // namespace bench
}  // namespace muster

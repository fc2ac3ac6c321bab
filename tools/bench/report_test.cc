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
  Report report({/*seed=*/7, /*repetitions=*/3});
  EXPECT_EQ(report.Add("lifecycle", Subjects(), Samples()), absl::OkStatus());
  return report;
}

TEST(ReportTest, JsonHasEverySubjectWithItsUnitAndTheRatiosByName) {
  Report report = OneSuite();
  report.LeaveOut("torch", "not installed, left out");
  const nlohmann::json json = nlohmann::json::parse(report.Json());
  EXPECT_EQ(json["seed"], 7);
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
  EXPECT_THAT(
      table, AllOf(HasSubstr("lifecycle/create_destroy_2_ranks"), HasSubstr("median"),
                   HasSubstr("  muster/gloo  "), HasSubstr(" us\n"),
                   HasSubstr("torch: not installed, left out\n"), HasSubstr("muster/gloo : gloo"),
                   HasSubstr("0.600"), HasSubstr("X : Y 0.5 means that X takes half the time of Y"),
                   Not(HasSubstr("openmpi"))));
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(table, '\n'))) {
    EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(ReportTest, EachUnitHasItsRowAndOnlyTimesAreCompared) {
  Report report({1, 1});
  ASSERT_EQ(report.Add("lifecycle", {"muster/reference", "muster/gloo"},
                       {{"store_256_ranks", "muster/reference", 100},
                        {"store_256_ranks", "muster/reference", 5, "requests/rank"},
                        {"store_256_ranks", "muster/gloo", 150},
                        {"store_256_ranks", "muster/gloo", 6, "requests/rank"}}),
            absl::OkStatus());
  const nlohmann::json json = nlohmann::json::parse(report.Json());
  ASSERT_THAT(json["results"], SizeIs(4));
  EXPECT_EQ(json["results"][3]["subject"], "muster/gloo");
  EXPECT_EQ(json["results"][3]["unit"], "requests/rank");
  EXPECT_EQ(json["results"][3]["median"], 6);
  ASSERT_THAT(json["ratios"], SizeIs(1));
  EXPECT_EQ(json["ratios"]["lifecycle/store_256_ranks: muster/gloo : muster/reference"], 1.5);
  EXPECT_THAT(json["goals"], SizeIs(0));
  EXPECT_THAT(report.Table(), HasSubstr("6.0 requests/rank\n"));
}

TEST(ReportTest, AGoalIsJudgedByTheWorstThatWasMeasuredOfIt) {
  Report report({1, 1});
  const auto add = [&report](int ranks, double gloo, double muster) {
    const std::string name = absl::StrCat("create_destroy_", ranks, "_ranks");
    ASSERT_EQ(report.Add("lifecycle", {"muster/gloo", "gloo"},
                         {{name, "muster/gloo", muster}, {name, "gloo", gloo}}),
              absl::OkStatus());
  };
  add(2, 100, 60);
  add(4, 100, 119);
  add(8, 100, 90);
  EXPECT_THAT(report.Table(), HasSubstr("goal: muster/gloo : gloo 1.19 <= 1.2, kept (the worst: "
                                        "create_destroy_4_ranks)\n"));
  EXPECT_THAT(report.Table(), Not(HasSubstr("SIGKILL")));
  add(16, 100, 121);
  EXPECT_THAT(report.Table(), HasSubstr("goal: muster/gloo : gloo 1.21 <= 1.2, missed (the worst: "
                                        "create_destroy_16_ranks)\n"));
  // Raw gloo's is no promise of ours.
  ASSERT_EQ(report.Add("lifecycle", {"muster/reference", "gloo"},
                       {{"sigkill_2_ranks", "muster/reference", 51000},
                        {"sigkill_2_ranks", "gloo", 70000}}),
            absl::OkStatus());
  EXPECT_THAT(report.Table(), HasSubstr("goal: SIGKILL known after 51.00 ms <= 50 ms, missed (the "
                                        "worst: sigkill_2_ranks, muster/reference)\n"));
  const nlohmann::json json = nlohmann::json::parse(report.Json());
  ASSERT_THAT(json["goals"], SizeIs(2));
  EXPECT_EQ(json["goals"][0]["goal"], "muster/gloo : gloo");
  EXPECT_EQ(json["goals"][0]["at_most"], 1.2);
  EXPECT_EQ(json["goals"][1]["value"], 51);
  EXPECT_EQ(json["goals"][1]["kept"], false);
}

TEST(ReportTest, TheTableSaysWhatIsNotTheSameInOpenMpisLifecycle) {
  const auto table = [](const std::string& case_name) {
    Report report({1, 3});
    EXPECT_TRUE(report.Add("a suite", {"openmpi"}, {{case_name, "openmpi", 10}}).ok());
    return report.Table();
  };
  const std::string note =
      "openmpi: dup and free of a connected communicator, no connections are made\n";
  EXPECT_THAT(table(kCase), HasSubstr(note));
  EXPECT_THAT(table("all_reduce_f32_4KiB_2_ranks"), Not(HasSubstr(note)));
}

TEST(ReportTest, ASubjectWithoutASampleIsNoResult) {
  Report report({1, 3});
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

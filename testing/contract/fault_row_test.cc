// The judge of the fault matrix sees what it is to see, and nothing else.
#include "muster/testing/contract/fault_row.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/testing/contract/fault_cell.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kStruck = 1'000'000'000;
constexpr char kCause[] = "UNAVAILABLE: rank 2 (host a, pid 7) was lost: killed by signal 9";

FaultCell Cell(absl::string_view name) { return FaultCell::Parse(name).value(); }

// Of a job in which all went as it should: rank 2 of 4 was killed.
FaultObservation Good() {
  FaultObservation seen;
  seen.struck = kStruck;
  seen.ranks.resize(4);
  for (int rank : {0, 1, 3}) {
    RankReport& report = seen.ranks[static_cast<size_t>(rank)];
    report.in_place = true;
    report.known = kStruck + 10'000'000;
    report.terminal = kStruck + 20'000'000 + rank * 1'000'000;
    report.ended = kCause;
    report.left = RankReport::kNothing;
    report.exit = "exited with code 0";
  }
  return seen;
}

TEST(FaultRowTest, WhatWentWellIsOkWithTheTimeOfTheLastSurvivor) {
  const FaultRow row = Judge(Cell("kill_collective_gloo_4"), Good());
  EXPECT_EQ(row.verdict, FaultRow::kOk) << row.why;
  EXPECT_EQ(row.fault, "kill");
  EXPECT_EQ(row.phase, "collective");
  EXPECT_EQ(row.backend, "gloo");
  EXPECT_EQ(row.n, 4);
  EXPECT_EQ(row.ms, 23);
  EXPECT_EQ(row.known_ms, 10);
  EXPECT_EQ(row.cause, kCause);
  EXPECT_EQ(row.left, "nothing");
}

TEST(FaultRowTest, EveryMistakeOfTheJobIsSeenAndSaid) {
  using Mistake = std::function<void(FaultObservation&)>;
  const std::vector<std::pair<std::string, Mistake>> mistakes = {
      {"rank 1 hangs: its process did not end", [](auto& seen) { seen.ranks[1] = RankReport(); }},
      {"rank 1's group has no end", [](auto& seen) { seen.ranks[1].terminal.reset(); }},
      {"rank 3 names another cause",
       [](auto& seen) {
         seen.ranks[3].ended = "UNAVAILABLE: rank 0 (host a, pid 5) was lost: killed by signal 9";
       }},
      {"rank 3 names not the same cause",
       [](auto& seen) {
         seen.ranks[3].ended = "UNAVAILABLE: rank 2 (host a, pid 8) was lost: killed by signal 9";
       }},
      {"rank 0 ended clean", [](auto& seen) { seen.ranks[0].ended = RankReport::kDestroyed; }},
      {"rank 0's group never began",
       [](auto& seen) { seen.ranks[0].ended = RankReport::kNeverBegan; }},
      {"left: 1 fd by rank 0", [](auto& seen) { seen.ranks[0].left = "1 fd"; }},
      {"left: key votes/train", [](auto& seen) { seen.left = {"key votes/train"}; }},
      {"known after ",
       [](auto& seen) { seen.ranks[0].known = seen.ranks[0].terminal = kStruck + 2'000'000'000; }},
      {"ended after ", [](auto& seen) { seen.ranks[0].terminal = kStruck + 20'000'000'000; }},
      {"the fault did not happen", [](auto& seen) { seen.struck = 0; }},
      {"no store", [](auto& seen) { seen.trouble = "no store"; }},
  };
  for (const auto& [says, mistake] : mistakes) {
    FaultObservation seen = Good();
    mistake(seen);
    const FaultRow row = Judge(Cell("kill_collective_gloo_4"), seen);
    EXPECT_EQ(row.verdict, FaultRow::kFailed) << says;
    EXPECT_THAT(row.why, HasSubstr(says));
  }
}

TEST(FaultRowTest, AVictimThatComesToItselfMustLeaveNothingEither) {
  FaultObservation seen = Good();
  for (RankReport& report : seen.ranks) {
    report.ended = "UNAVAILABLE: rank 2 (host a, pid 7) was lost: no heartbeat for 2s";
  }
  seen.ranks[2] = seen.ranks[1];
  seen.ranks[2].ended = "UNAVAILABLE: the store (the launcher, pid 3) was lost";
  EXPECT_EQ(Judge(Cell("stop_ready_reference_4"), seen).verdict, FaultRow::kOk);
  seen.ranks[2].left = "2 threads";
  EXPECT_THAT(Judge(Cell("stop_ready_reference_4"), seen).why,
              HasSubstr("left: 2 threads by rank 2"));
  seen.ranks[2] = RankReport();
  EXPECT_THAT(Judge(Cell("stop_ready_reference_4"), seen).why, HasSubstr("rank 2 hangs"));
}

TEST(FaultRowTest, WhatDoesNoHarmMustEndCleanEverywhere) {
  FaultObservation seen = Good();
  seen.ranks[2] = seen.ranks[1];
  for (RankReport& report : seen.ranks) report.ended = RankReport::kDestroyed;
  EXPECT_EQ(Judge(Cell("shortstop_working_reference_4"), seen).verdict, FaultRow::kOk);
  seen.ranks[2].ended = kCause;
  EXPECT_THAT(Judge(Cell("shortstop_working_reference_4"), seen).why, HasSubstr("rank 2 failed"));
}

TEST(FaultRowTest, ARowComesBackFromItsJson) {
  FaultRow row = FaultRow::Of(Cell("kill_ready_gloo_2"), FaultRow::kFailed, "rank 0 hangs");
  row.ms = 12.5;
  row.cause = "a \"cause\"\nof two lines";
  row.left = "1 fd by rank 0";
  const absl::StatusOr<FaultRow> back = FaultRow::FromJson(row.ToJson());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->ToJson(), row.ToJson());
  EXPECT_EQ(back->cause, row.cause);
  EXPECT_FALSE(FaultRow::FromJson("{").ok());
}

TEST(FaultCellTest, EveryCellOfTheMatrixHasANameOfItsOwnAndAReasonOrAnExpectation) {
  std::vector<std::string> names;
  for (const FaultCell& cell : FaultMatrix()) {
    names.push_back(cell.Name());
    const std::optional<FaultCell> parsed = FaultCell::Parse(cell.Name());
    ASSERT_TRUE(parsed.has_value()) << cell.Name();
    EXPECT_EQ(parsed->Name(), cell.Name());
    if (!WhyNoSense(cell).empty()) continue;
    const FaultExpectation expected = Expect(cell);
    EXPECT_TRUE(!expected.cause.empty() || expected.must_end_clean) << cell.Name();
    EXPECT_GE(expected.terminal, expected.known);
    EXPECT_LT(expected.terminal, absl::Seconds(100));
  }
  EXPECT_EQ(names.size(), 7u * 6 * 2 * 2);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_FALSE(FaultCell::Parse("kill_ready_gloo").has_value());
  EXPECT_FALSE(FaultCell::Parse("kill_nowhere_gloo_2").has_value());
}

}  // namespace
}  // namespace muster::testing

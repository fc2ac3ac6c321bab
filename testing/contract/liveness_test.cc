// Liveness (L4), on real processes: who is dead, stopped or out of reach is known in time, and what
// only looks like it does no harm. Each case is a job of a cell's kind (fault_cell.h).
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/contract/fault_cell.h"
#include "muster/testing/contract/fault_job.h"
#include "muster/testing/contract/fault_row.h"

namespace muster::testing {
namespace {

class LivenessTest : public ::testing::TestWithParam<std::string> {
 protected:
  // On the backend of the case.
  void ExpectOk(absl::string_view fault_and_phase, int n) {
    const std::optional<FaultCell> cell =
        FaultCell::Parse(absl::StrCat(fault_and_phase, "_", GetParam(), "_", n));
    ASSERT_TRUE(cell.has_value());
    const FaultRow row = RunFaultCells({*cell}, 1)[0];
    if (row.verdict == FaultRow::kSkipped) GTEST_SKIP() << row.why;
    EXPECT_EQ(row.verdict, FaultRow::kOk) << row.why;
    printf("%s: %s after %.1f ms\n", cell->Name().c_str(), row.cause.c_str(), row.ms);
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, LivenessTest, ::testing::Values("reference", "gloo"),
                         [](const ::testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

TEST_P(LivenessTest, ADeadProcessOnThisHostIsKnownToAllWithinASecond) {
  constexpr int kTimes = 5;
  std::vector<FaultCell> cells;
  for (const char* const phase : {"ready", "collective"}) {
    const std::string name = absl::StrCat("kill_", phase, "_", GetParam(), "_4");
    cells.insert(cells.end(), kTimes, FaultCell::Parse(name).value());
  }
  std::vector<double> known;
  for (const FaultRow& row : RunFaultCells(cells, 1)) {
    EXPECT_EQ(row.verdict, FaultRow::kOk) << row.why;
    known.push_back(row.known_ms);
  }
  std::sort(known.begin(), known.end());
  printf(
      "SIGKILL of one of 4 ranks, %s: known to the last survivor after %.1f ms in the median "
      "of %zu, at most %.1f ms\n",
      GetParam().c_str(), known[known.size() / 2], known.size(), known.back());
  RecordProperty("known_median_us", static_cast<int>(known[known.size() / 2] * 1000));
  EXPECT_LE(known.back(), absl::ToDoubleMilliseconds(TimeoutScale() * absl::Seconds(1)));
}

TEST_P(LivenessTest, AStopShorterThanTheHeartbeatTimeoutDoesNoHarm) {
  ExpectOk("shortstop_working", 4);
}

TEST_P(LivenessTest, WithAnInfiniteHeartbeatTimeoutARankMayBeStopped) {
  ExpectOk("longstop_working", 2);
}

// Ctrl-Z on the launcher, say.
TEST_P(LivenessTest, AStoreThatWasItselfPausedKillsNobody) { ExpectOk("storepaused_working", 4); }

TEST_P(LivenessTest, APartitionShorterThanTheHeartbeatTimeoutDoesNoHarm) {
  ExpectOk("shortcut_working", 4);
}

// The rank that is cut off learns that it has lost the store, and the others that they have lost
// it: fault_matrix has that in every phase.
TEST_P(LivenessTest, ARankThatIsCutOffIsKnownToBothSides) { ExpectOk("partition_collective", 4); }

// Everybody reaches the store, so nobody is lost; but no work can end, and all learn that alike.
// Not for reference, whose ranks only talk to rank 0.
TEST(GlooLivenessTest, RanksThatReachTheStoreAndNotEachOtherFailByTheOperationTimeout) {
  const FaultRow row =
      RunFaultCells({FaultCell::Parse("datapartition_working_gloo_4").value()}, 1)[0];
  if (row.verdict == FaultRow::kSkipped) GTEST_SKIP() << row.why;
  EXPECT_EQ(row.verdict, FaultRow::kOk) << row.why;
}

}  // namespace
}  // namespace muster::testing

int main(int argc, char** argv) {
  if (const std::optional<int> code = muster::testing::FaultProcessMain(argc, argv)) return *code;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

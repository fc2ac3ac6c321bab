// The fault matrix must be able to fail: on real processes, a mistake that is made on purpose turns
// the verdict of a cell, and the row says which it was.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/testing/contract/fault_cell.h"
#include "muster/testing/contract/fault_job.h"
#include "muster/testing/contract/fault_row.h"

namespace muster::testing {
namespace {

using ::testing::ContainsRegex;

struct Mistake {
  std::string cell;  // with what is planted
  std::string why;   // a regular expression
};

std::ostream& operator<<(std::ostream& out, const Mistake& mistake) { return out << mistake.cell; }

class FaultMatrixSelfTest : public ::testing::TestWithParam<Mistake> {
 protected:
  static FaultRow Row(const FaultCell& cell) { return RunFaultCells({cell}, 1)[0]; }
};

TEST_P(FaultMatrixSelfTest, TheVerdictTurnsAndSaysWhy) {
  FaultCell cell = FaultCell::Parse(GetParam().cell).value();
  const FaultRow planted = Row(cell);
  EXPECT_EQ(planted.verdict, FaultRow::kFailed);
  EXPECT_THAT(planted.why, ContainsRegex(GetParam().why));
  // And it is the mistake that turned it.
  cell.planted = Planted::kNothing;
  const FaultRow plain = Row(cell);
  EXPECT_EQ(plain.verdict, FaultRow::kOk) << plain.why;
}

INSTANTIATE_TEST_SUITE_P(
    Planted, FaultMatrixSelfTest,
    ::testing::Values(
        Mistake{"stop_ready_reference_2_detectionoff", "rank 0 hangs: its process killed by"},
        Mistake{"kill_collective_gloo_4_wrongblame",
                "rank [0-3] names another cause: .*rank 0 left: \"label 17 out of range"},
        Mistake{"kill_ready_reference_2_leakedfd", "left: 1 fd by rank 0"},
        Mistake{"kill_ready_reference_2_leakedthread", "left: 1 thread by rank 0"},
        Mistake{"kill_ready_reference_2_leakedprocess",
                "left: left behind, ended now: process [0-9]+ .*sleep 1000"},
        Mistake{"kill_connecting_reference_4_rollbackskipped", "left: .* by rank 0"}),
    [](const ::testing::TestParamInfo<Mistake>& info) { return info.param.cell; });

}  // namespace
}  // namespace muster::testing

int main(int argc, char** argv) {
  if (const std::optional<int> code = muster::testing::FaultProcessMain(argc, argv)) return *code;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

// The fault matrix (L1, L2, L4): every fault in every phase of a group, by both backends, on two
// and on four real processes. Each cell must end in its bound, with the right cause on every
// survivor and with nothing left.
//
//   bazel test //testing/contract:fault_matrix     # each shard leaves fault_matrix.json, its part
//                                                  # of the rows, in its outputs
//   bazel run //testing/contract:fault_matrix -- --report=fault_matrix.json    # all of them
//   bazel run //testing/contract:fault_matrix -- --gtest_filter='*partition*gloo*'
//
// A row of the report: {fault, phase, backend, n, ms, known_ms, cause, left, verdict, why}; `ms` is
// from the fault until the last survivor's group had ended. The verdict is ok, failed, "no sense"
// (why is the reason that there can be no such cell) or skipped (why is what this machine lacks).
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/users_path.h"
#include "muster/testing/contract/fault_cell.h"
#include "muster/testing/contract/fault_job.h"
#include "muster/testing/contract/fault_row.h"

namespace muster::testing {

std::ostream& operator<<(std::ostream& out, const FaultCell& cell) { return out << cell.Name(); }

namespace {

// They wait more than they work.
constexpr int kAtOnce = 3;

std::string report_file;  // --report, else in the test's outputs; "": nowhere

class FaultMatrixTest : public ::testing::TestWithParam<FaultCell> {
 protected:
  // All of them together, so that those that wait do so at once.
  static void SetUpTestSuite() {
    std::vector<FaultCell> selected;
    const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
    for (const FaultCell& cell : FaultMatrix()) {
      const std::string name = absl::StrCat("/", cell.Name());
      for (int i = 0; i < all.total_test_suite_count(); ++i) {
        for (int j = 0; j < all.GetTestSuite(i)->total_test_count(); ++j) {
          const ::testing::TestInfo& test = *all.GetTestSuite(i)->GetTestInfo(j);
          if (test.should_run() && absl::EndsWith(test.name(), name)) selected.push_back(cell);
        }
      }
    }
    const std::vector<FaultRow> rows = RunFaultCells(selected, kAtOnce, [](const FaultRow& row) {
      printf("%-12s %-10s %-9s %d %8.1f ms  %s %s\n", row.fault.c_str(), row.phase.c_str(),
             row.backend.c_str(), row.n, row.ms, row.verdict.c_str(), row.cause.c_str());
      fflush(stdout);
    });
    for (size_t i = 0; i < rows.size(); ++i) rows_[selected[i].Name()] = rows[i];
    WriteReport(rows);
  }

  static void WriteReport(const std::vector<FaultRow>& rows) {
    if (report_file.empty()) return;
    std::ofstream file(report_file);
    absl::string_view before = "[\n";
    for (const FaultRow& row : rows) {
      file << before << row.ToJson();
      before = ",\n";
    }
    file << (rows.empty() ? "[" : "") << "\n]\n";
    file.close();
    EXPECT_TRUE(file.good()) << "cannot write " << report_file;
  }

  static std::map<std::string, FaultRow> rows_;
};

std::map<std::string, FaultRow> FaultMatrixTest::rows_;

TEST_P(FaultMatrixTest, EverySurvivorEndsInTimeNamesTheCauseAndLeavesNothing) {
  const FaultRow& row = rows_[GetParam().Name()];
  RecordProperty("verdict", row.verdict);
  if (row.verdict == FaultRow::kNoSense || row.verdict == FaultRow::kSkipped) {
    GTEST_SKIP() << row.verdict << ": " << row.why;
  }
  EXPECT_EQ(row.verdict, FaultRow::kOk) << row.why;
}

INSTANTIATE_TEST_SUITE_P(Cells, FaultMatrixTest, ::testing::ValuesIn(FaultMatrix()),
                         [](const ::testing::TestParamInfo<FaultCell>& info) {
                           return info.param.Name();
                         });

}  // namespace
}  // namespace muster::testing

int main(int argc, char** argv) {
  if (const std::optional<int> code = muster::testing::FaultProcessMain(argc, argv)) return *code;
  ::testing::InitGoogleTest(&argc, argv);
  const muster::Environment environment = muster::Environment::OfProcess();
  std::string& report = muster::testing::report_file;
  if (const auto outputs = environment.Get("TEST_UNDECLARED_OUTPUTS_DIR")) {
    report = absl::StrCat(*outputs, "/fault_matrix.json");
  }
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (!absl::ConsumePrefix(&argument, "--report=") || argument.empty()) {
      fprintf(stderr, "%s: expected --report=FILE\n", argv[i]);
      return 2;
    }
    report = muster::UsersPath(environment, std::string(argument));
  }
  return RUN_ALL_TESTS();
}

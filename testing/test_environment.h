// What a multi-rank test makes of Bazel's variables and of its arguments. Pure.
//
// One process may own each of XML_OUTPUT_FILE, TEST_PREMATURE_EXIT_FILE and TEST_SHARD_STATUS_FILE:
// the launcher. The ranks keep what selects tests (TESTBRIDGE_TEST_ONLY, the shard), so that each
// runs the same ones in the same order.
#ifndef MUSTER_TESTING_TEST_ENVIRONMENT_H_
#define MUSTER_TESTING_TEST_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace testing {

struct TestPlan {
  std::string name;  // TEST_TARGET, else the program's file name
  int ranks = 0;
  std::string backend;
  std::vector<std::string> rank_arguments;  // without those that are the launcher's
  Environment rank_environment{{}};
  bool only_list = false;  // --gtest_list_tests, --help: no ranks are needed

  // --gtest_output, else XML_OUTPUT_FILE, else GTEST_OUTPUT; "" for none.
  std::string xml_output_file;
  std::string premature_exit_file;  // "" for none
  std::string shard_status_file;    // "" for none
  std::string logs_folder;          // TEST_UNDECLARED_OUTPUTS_DIR, "" for none
  std::string temporary_folder;     // TEST_TMPDIR, else TMPDIR, else /tmp
  // Inside TEST_TIMEOUT, so that we say who hangs before Bazel kills everybody: after it come both
  // graces and the report.
  absl::Duration deadline;
  // JobLimits::failure_grace, JobLimits::straggler_grace (as long as the fixture's groups wait) and
  // JobOptions::left_grace, longer where MUSTER_TIMEOUT_SCALE says so.
  absl::Duration failure_grace;
  absl::Duration straggler_grace;
  absl::Duration left_grace;
};

// InvalidArgument naming the argument or variable, its value and the form expected. `seed`: for
// --gtest_shuffle, so that all ranks shuffle alike.
absl::StatusOr<TestPlan> PlanTest(const std::vector<std::string>& arguments,
                                  const Environment& environment, int seed);

}  // namespace testing
}  // namespace muster

#endif  // MUSTER_TESTING_TEST_ENVIRONMENT_H_

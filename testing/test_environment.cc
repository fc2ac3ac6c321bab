#include "muster/testing/test_environment.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/private_folder.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace testing {
namespace {

std::optional<int> ParseNumber(absl::string_view text, int low, int high) {
  int value = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isdigit(c);
  });
  if (!digits || !absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return std::nullopt;
  }
  return value;
}

// The file of GoogleTest's xml, xml:FILE and xml:FOLDER/ (then the program's name in it); "" for
// none. GoogleTest's other forms would be one rank's report, and ours is of all ranks.
absl::StatusOr<std::string> XmlFile(absl::string_view variable, absl::string_view output,
                                    absl::string_view program) {
  absl::string_view file = output;
  if (output.empty()) return "";
  if (!absl::ConsumePrefix(&file, "xml") || !(file.empty() || file[0] == ':')) {
    return absl::InvalidArgumentError(absl::StrCat(
        variable, " is \"", output,
        "\": the report of several ranks is XML: expected xml, xml:FILE or xml:FOLDER/"));
  }
  absl::ConsumePrefix(&file, ":");
  if (file.empty()) return "test_detail.xml";  // GoogleTest's
  return absl::EndsWith(file, "/") ? absl::StrCat(file, program, ".xml") : std::string(file);
}

// What is needed after the deadline stays, or a tenth of the limit, up to ten seconds, where that
// is more; but half of the limit is the ranks'.
absl::Duration DeadlineWithin(absl::Duration timeout, absl::Duration needed) {
  const absl::Duration kept = std::max(needed, std::min(timeout / 10, absl::Seconds(10)));
  return timeout - std::min(kept, timeout / 2);
}

}  // namespace

absl::StatusOr<TestPlan> PlanTest(const std::vector<std::string>& arguments,
                                  const Environment& environment, int seed) {
  const auto variable = [&](absl::string_view name) { return environment.Get(name).value_or(""); };
  TestPlan plan;
  plan.logs_folder = variable("TEST_UNDECLARED_OUTPUTS_DIR");
  plan.premature_exit_file = variable("TEST_PREMATURE_EXIT_FILE");
  plan.shard_status_file = variable("TEST_SHARD_STATUS_FILE");
  plan.temporary_folder = variable("TEST_TMPDIR");
  if (plan.temporary_folder.empty()) plan.temporary_folder = TemporaryFolder(environment);

  std::optional<std::string> output;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (i == 0) {
      plan.name = std::string(argument.substr(argument.rfind('/') + 1));
    } else if (absl::ConsumePrefix(&argument, "--muster_ranks=")) {
      const std::optional<int> ranks = ParseNumber(argument, 1, JobOptions::kMaxRanks);
      if (!ranks.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--muster_ranks is \"", argument, "\": expected 1 to ", JobOptions::kMaxRanks));
      }
      plan.ranks = *ranks;
    } else if (absl::ConsumePrefix(&argument, "--muster_backend=")) {
      plan.backend = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--gtest_output=")) {
      // N ranks would write one file; ours is written once.
      output = std::string(argument);
    } else {
      plan.only_list = plan.only_list || argument == "--gtest_list_tests" || argument == "--help";
      plan.rank_arguments.emplace_back(argument);
    }
  }
  if (!plan.only_list && (plan.ranks == 0 || plan.backend.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat(plan.ranks == 0 ? "--muster_ranks" : "--muster_backend",
                     " is not given: run this test with Bazel, or add --muster_ranks=2 "
                     "--muster_backend=NAME by hand, with a backend that it links"));
  }
  plan.xml_output_file = variable("XML_OUTPUT_FILE");
  // A list is GoogleTest's to write.
  if (!plan.only_list && (output.has_value() || plan.xml_output_file.empty())) {
    absl::StatusOr<std::string> file =
        output.has_value() ? XmlFile("--gtest_output", *output, plan.name)
                           : XmlFile("GTEST_OUTPUT", variable("GTEST_OUTPUT"), plan.name);
    if (!file.ok()) return file.status();
    plan.xml_output_file = *std::move(file);
  }
  if (!variable("TEST_TARGET").empty()) plan.name = variable("TEST_TARGET");

  const double scale = TimeoutScale(environment);
  plan.failure_grace = scale * absl::Seconds(2);
  plan.straggler_grace = scale * absl::Seconds(10);
  plan.left_grace = scale * absl::Milliseconds(500);
  const absl::Duration report = scale * absl::Seconds(1);

  const std::string timeout = variable("TEST_TIMEOUT");
  plan.deadline = absl::Minutes(10);
  if (!timeout.empty()) {
    const std::optional<int> seconds = ParseNumber(timeout, 1, 1 << 30);
    if (!seconds.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("TEST_TIMEOUT is \"", timeout, "\": expected a number of seconds"));
    }
    plan.deadline =
        DeadlineWithin(absl::Seconds(*seconds), plan.failure_grace + plan.left_grace + report);
  }

  std::map<std::string, std::string, std::less<>> variables = environment.variables();
  for (const char* name : {"XML_OUTPUT_FILE", "GTEST_OUTPUT", "TEST_PREMATURE_EXIT_FILE",
                           "TEST_SHARD_STATUS_FILE", "GTEST_SHARD_STATUS_FILE"}) {
    variables.erase(name);
  }
  // GoogleTest reads its own names; Bazel's wrapper sets both, a run by hand perhaps not.
  for (const char* name : {"TOTAL_SHARDS", "SHARD_INDEX"}) {
    const std::string value = variable(absl::StrCat("TEST_", name));
    if (!value.empty()) variables[absl::StrCat("GTEST_", name)] = value;
    variables.erase(absl::StrCat("TEST_", name));
  }
  const std::string given = variable("GTEST_RANDOM_SEED");
  if (given.empty() || given == "0") variables["GTEST_RANDOM_SEED"] = absl::StrCat(seed);
  plan.rank_environment = Environment(std::move(variables));
  return plan;
}

}  // namespace testing
}  // namespace muster

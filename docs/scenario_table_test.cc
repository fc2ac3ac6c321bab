// Is every scenario of docs/scenarios.md kept by a test that is there? The document, and the BUILD
// files and sources of the tests that it names, are data of this test.
#include "muster/docs/scenario_table.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/read_file.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::optional<std::string> FromData(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return std::nullopt;
  return *std::move(text);
}

TEST(ScenarioTableTest, EveryScenarioIsKeptByATestThatIsThere) {
  const std::optional<std::string> document = FromData("docs/scenarios.md");
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(CountScenarios(*document), 35) << "a row was lost, or this number is old";
  for (const std::string& wrong : CheckScenarios(*document, FromData)) ADD_FAILURE() << wrong;
}

// --- What the test above would find

class PlantedScenarioTest : public ::testing::Test {
 protected:
  // Of a table with one row.
  static std::vector<std::string> WrongIn(absl::string_view kept_by) {
    const std::string document =
        absl::StrCat("# Scenarios\n\n| source | kept by |\n|---|---|\n| PT#1 | ", kept_by,
                     " |\n\nLeft out: none.\n");
    return CheckScenarios(document, [](const std::string& path) -> std::optional<std::string> {
      static const std::map<std::string, std::string> files = {
          {"core/x/BUILD.bazel",
           "muster_cc_library(\n    name = \"x\",\n    hdrs = [\"x.h\"],\n)\n\n"
           "muster_cc_test(\n    name = \"x_test\",\n    srcs = [\n        \"more.cc\",\n"
           "        \"x_test.cc\",\n    ],\n    deps = [\":y_test\"],\n)\n\n"
           "muster_cc_test(\n    name = \"lost_test\",\n    srcs = [\"lost_test.cc\"],\n)\n"},
          {"core/x/more.cc", "TEST_P(XTest,\n       HasALongName) {}\n"},
          {"core/x/x_test.cc", "TEST(XTest, Works) {}\n// TEST_F(XTest)\n"},
      };
      const auto found = files.find(path);
      if (found == files.end()) return std::nullopt;
      return found->second;
    });
  }
};

TEST_F(PlantedScenarioTest, TestsThatAreThereAreFine) {
  EXPECT_THAT(WrongIn("`//core/x:x_test` `XTest.Works`, `XTest.HasALongName`"), IsEmpty());
}

TEST_F(PlantedScenarioTest, ARowWithoutATestIsFound) {
  EXPECT_THAT(WrongIn(""), ElementsAre("docs/scenarios.md, line 5 (PT#1): no test keeps it"));
  EXPECT_THAT(WrongIn("`//core/x:x_test`"), ElementsAre(HasSubstr("no test keeps it")));
  EXPECT_THAT(WrongIn("by and by"), ElementsAre(HasSubstr("no test keeps it")));
}

TEST_F(PlantedScenarioTest, ARowWithoutItsLastCellIsFound) {
  EXPECT_THAT(
      CheckScenarios("| source | here | kept by |\n|---|---|---|\n| PT#1 | L1 |\n", FromData),
      ElementsAre(HasSubstr("line 3 (PT#1): no test keeps it")));
}

TEST_F(PlantedScenarioTest, AnUnknownTestIsFound) {
  EXPECT_THAT(WrongIn("`//core/x:x_test` `XTest.Works`, `XTest.Work`"),
              ElementsAre(HasSubstr("//core/x:x_test has no test XTest.Work")));
  EXPECT_THAT(WrongIn("`//core/x:x_test` `YTest.Works`"), ElementsAre(HasSubstr("YTest.Works")));
}

TEST_F(PlantedScenarioTest, ATestOfAnotherTargetIsFound) {
  EXPECT_THAT(WrongIn("`XTest.Works`"), ElementsAre(HasSubstr("has no target before it")));
}

TEST_F(PlantedScenarioTest, AnUnknownTargetIsFound) {
  EXPECT_THAT(WrongIn("`//core/x:y_test` `XTest.Works`"),
              ElementsAre(HasSubstr("there is no target //core/x:y_test")));
  EXPECT_THAT(WrongIn("`//core/y:x_test` `XTest.Works`"),
              ElementsAre(HasSubstr("there is no package //core/y")));
}

TEST_F(PlantedScenarioTest, ATargetThatIsNoTestIsFound) {
  EXPECT_THAT(WrongIn("`//core/x:x` `XTest.Works`"), ElementsAre(HasSubstr("is no test")));
}

TEST_F(PlantedScenarioTest, ASourceThatIsNotThereIsFound) {
  EXPECT_THAT(WrongIn("`//core/x:lost_test` `XTest.Works`"),
              ::testing::Contains(HasSubstr("core/x/lost_test.cc is not there")));
}

}  // namespace
}  // namespace muster

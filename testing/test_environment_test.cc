#include "muster/testing/test_environment.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The constructor alone takes a single pair of literals for two iterators.
Environment Of(Environment::Variables variables) { return Environment(std::move(variables)); }

TestPlan Plan(std::vector<std::string> arguments, const Environment& environment = Of({})) {
  arguments.insert(arguments.begin(),
                   {"/bin/my_test", "--muster_ranks=2", "--muster_backend=gloo"});
  absl::StatusOr<TestPlan> plan = PlanTest(arguments, environment, 7);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : TestPlan();
}

TEST(TestPlanTest, TheLaunchersArgumentsAreNotTheRanks) {
  const TestPlan plan = Plan({"--gtest_filter=A.*", "--gtest_output=xml:/tmp/x.xml", "--mine"});
  EXPECT_EQ(plan.name, "my_test");
  EXPECT_EQ(plan.ranks, 2);
  EXPECT_EQ(plan.backend, "gloo");
  EXPECT_THAT(plan.rank_arguments, ElementsAre("--gtest_filter=A.*", "--mine"));
  EXPECT_EQ(plan.xml_output_file, "/tmp/x.xml");
  EXPECT_FALSE(plan.only_list);
  EXPECT_TRUE(Plan({"--gtest_list_tests"}).only_list);
}

TEST(TestPlanTest, OnlyTheLauncherOwnsBazelsFiles) {
  const TestPlan plan = Plan({}, Of({{"XML_OUTPUT_FILE", "x"},
                                     {"TEST_PREMATURE_EXIT_FILE", "p"},
                                     {"TEST_SHARD_STATUS_FILE", "s"},
                                     {"GTEST_SHARD_STATUS_FILE", "s"},
                                     {"GTEST_OUTPUT", "xml:y"},
                                     {"TEST_TOTAL_SHARDS", "3"},
                                     {"TEST_SHARD_INDEX", "1"},
                                     {"TESTBRIDGE_TEST_ONLY", "A.*"},
                                     {"TEST_TARGET", "//a:b"},
                                     {"HOME", "/h"}}));
  EXPECT_EQ(plan.name, "//a:b");
  EXPECT_EQ(plan.xml_output_file, "x");
  EXPECT_EQ(plan.premature_exit_file, "p");
  EXPECT_EQ(plan.shard_status_file, "s");
  EXPECT_THAT(plan.rank_environment.variables(),
              ElementsAre(std::make_pair("GTEST_RANDOM_SEED", "7"),
                          std::make_pair("GTEST_SHARD_INDEX", "1"),
                          std::make_pair("GTEST_TOTAL_SHARDS", "3"), std::make_pair("HOME", "/h"),
                          std::make_pair("TESTBRIDGE_TEST_ONLY", "A.*"),
                          std::make_pair("TEST_TARGET", "//a:b")));
}

TEST(TestPlanTest, TheXmlGoesWhereGoogleTestWouldPutIt) {
  const auto file = [](const char* output, Environment::Variables variables = {}) {
    return Plan({std::string("--gtest_output=") + output}, Of(std::move(variables)))
        .xml_output_file;
  };
  EXPECT_EQ(file("xml"), "test_detail.xml");
  EXPECT_EQ(file("xml:"), "test_detail.xml");
  EXPECT_EQ(file("xml:a.xml"), "a.xml");
  EXPECT_EQ(file("xml:/tmp/out/"), "/tmp/out/my_test.xml");
  EXPECT_EQ(file("xml:out/", {{"TEST_TARGET", "//a:b"}}), "out/my_test.xml");
  EXPECT_EQ(file("", {{"XML_OUTPUT_FILE", "x"}}), "");
  EXPECT_EQ(file("xml:a", {{"XML_OUTPUT_FILE", "x"}, {"GTEST_OUTPUT", "json:y"}}), "a");
  EXPECT_EQ(Plan({}, Of({{"GTEST_OUTPUT", "xml:y"}})).xml_output_file, "y");
  EXPECT_EQ(Plan({}).xml_output_file, "");
}

TEST(TestPlanTest, AReportThatWeDoNotWriteIsAnErrorAndNotSilence) {
  const auto error = [](std::vector<std::string> arguments, const Environment& environment) {
    arguments.insert(arguments.begin(), {"test", "--muster_ranks=2", "--muster_backend=gloo"});
    const absl::Status status = PlanTest(arguments, environment, 1).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  for (const char* output : {"json", "json:a.json", "xmlfile", "a.xml"}) {
    EXPECT_THAT(error({std::string("--gtest_output=") + output}, Of({})),
                HasSubstr(std::string("--gtest_output is \"") + output +
                          "\": the report of several ranks is XML: expected xml, xml:FILE or "
                          "xml:FOLDER/"));
  }
  EXPECT_THAT(error({}, Of({{"GTEST_OUTPUT", "json"}})), HasSubstr("GTEST_OUTPUT is \"json\""));
  // GoogleTest's own list has both forms.
  EXPECT_TRUE(Plan({"--gtest_list_tests", "--gtest_output=json:a.json"}).only_list);
}

TEST(TestPlanTest, ASeedThatWasGivenStays) {
  const TestPlan plan = Plan({}, Of({{"GTEST_RANDOM_SEED", "3"}}));
  EXPECT_EQ(plan.rank_environment.Get("GTEST_RANDOM_SEED"), "3");
}

TEST(TestPlanTest, TheDeadlineIsInsideBazelsTimeout) {
  const auto deadline = [](const char* timeout, const char* scale) {
    const TestPlan plan =
        Plan({}, Of({{"TEST_TIMEOUT", timeout}, {"MUSTER_TIMEOUT_SCALE", scale}}));
    return plan.deadline;
  };
  EXPECT_EQ(deadline("10", "1"), absl::Seconds(6.5));
  EXPECT_EQ(deadline("60", "1"), absl::Seconds(54));
  EXPECT_EQ(deadline("3600", "1"), absl::Seconds(3590));
  EXPECT_EQ(deadline("4", "1"), absl::Seconds(2));
  // Slow builds need longer after it, too.
  EXPECT_EQ(deadline("60", "5"), absl::Seconds(42.5));
  EXPECT_EQ(deadline("3600", "5"), absl::Seconds(3582.5));
  EXPECT_EQ(Plan({}).deadline, absl::Minutes(10));
}

TEST(TestPlanTest, TheGracesAfterTheDeadlineFitBeforeBazelsTimeout) {
  for (const char* scale : {"1", "5", "20"}) {
    const TestPlan plan = Plan({}, Of({{"TEST_TIMEOUT", "300"}, {"MUSTER_TIMEOUT_SCALE", scale}}));
    EXPECT_LT(plan.deadline + plan.failure_grace + plan.left_grace, absl::Seconds(300)) << scale;
  }
}

TEST(TestPlanTest, WhatIsWrongIsNamed) {
  const auto error = [](std::vector<std::string> arguments, const Environment& environment) {
    arguments.insert(arguments.begin(), "test");
    return std::string(PlanTest(arguments, environment, 1).status().message());
  };
  EXPECT_THAT(error({}, Of({})),
              HasSubstr("--muster_ranks is not given: run this test with Bazel"));
  EXPECT_THAT(error({"--muster_ranks=2"}, Of({})), HasSubstr("--muster_backend is not given"));
  for (const char* bad : {"0", "x", "", "-1", "4097"}) {
    EXPECT_THAT(error({std::string("--muster_ranks=") + bad}, Of({})),
                HasSubstr(std::string("--muster_ranks is \"") + bad + "\": expected 1 to 4096"));
  }
  EXPECT_THAT(error({"--muster_ranks=1", "--muster_backend=b"}, Of({{"TEST_TIMEOUT", "x"}})),
              HasSubstr("TEST_TIMEOUT is \"x\": expected a number of seconds"));
}

}  // namespace
}  // namespace testing
}  // namespace muster

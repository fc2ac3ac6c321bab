#include "muster/tools/muster/run_command.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

using Arguments = std::vector<std::string>;

RunArguments Good(const Arguments& arguments) {
  absl::StatusOr<RunArguments> parsed = ParseRunArguments(arguments);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : RunArguments();
}

std::string Bad(const Arguments& arguments) {
  const absl::Status status = ParseRunArguments(arguments).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(RunArgumentsTest, WhatFollowsTheProgramIsItsOwn) {
  const RunArguments parsed = Good({"-n", "4", "--", "./my program", "-n", "7", "--", "--help"});
  EXPECT_EQ(parsed.ranks, 4);
  EXPECT_EQ(parsed.timeout, absl::InfiniteDuration());
  EXPECT_THAT(parsed.command, ElementsAre("./my program", "-n", "7", "--", "--help"));
  EXPECT_THAT(Good({"-n", "4", "true", "-x"}).command, ElementsAre("true", "-x"));
}

TEST(RunArgumentsTest, TakesEachWayToWriteAnOption) {
  EXPECT_EQ(Good({"-n4", "true"}).ranks, 4);
  EXPECT_EQ(Good({"-n=4", "true"}).ranks, 4);
  EXPECT_EQ(Good({"--timeout=90s", "-n", "1", "true"}).timeout, absl::Seconds(90));
  EXPECT_EQ(Good({"-n", "1", "--timeout", "1h30m", "true"}).timeout, absl::Minutes(90));
  EXPECT_TRUE(Good({"--help"}).help);
}

TEST(RunArgumentsTest, AWrongValueIsNamedWithTheFormExpected) {
  for (const std::string value :
       {"0", "-1", "x", "", " 2", "2 ", "+2", "2.0", "4097", "99999999999"}) {
    EXPECT_EQ(Bad({"-n", value, "true"}),
              "-n is \"" + value + "\": expected the number of ranks, from 1 to 4096");
  }
  for (const std::string value : {"0s", "-1s", "x", "", "90", "5 m"}) {
    EXPECT_EQ(
        Bad({"-n", "2", "--timeout", value, "true"}),
        "--timeout is \"" + value + "\": expected a duration above 0, such as 90s, 5m or 1h30m");
  }
}

TEST(RunArgumentsTest, WhatIsMissingIsNamed) {
  EXPECT_EQ(Bad({}), "-n is missing: expected -n N, the number of ranks to start");
  EXPECT_EQ(Bad({"true"}), "-n is missing: expected -n N, the number of ranks to start");
  EXPECT_EQ(Bad({"-n"}), "-n has no value: expected the number of ranks after it");
  EXPECT_EQ(Bad({"-n", "2", "--timeout"}), "--timeout has no value: expected a duration after it");
  for (const Arguments& arguments : {Arguments{"-n", "2"}, Arguments{"-n", "2", "--"}}) {
    EXPECT_EQ(Bad(arguments),
              "the program is missing: expected it after the options, as in `muster run -n 2 -- "
              "./program --flag`");
  }
}

TEST(RunArgumentsTest, AnOptionThatIsGivenTwiceIsRefused) {
  EXPECT_EQ(Bad({"-n", "2", "-n3", "true"}), "-n is given twice: expected one value");
  EXPECT_EQ(Bad({"--timeout=inf", "-n", "2", "--timeout", "9s", "true"}),
            "--timeout is given twice: expected one value");
}

TEST(RunArgumentsTest, AnUnknownOptionIsNamedWithThoseThatAre) {
  for (const std::string option : {"-x", "--ranks=2", "--timeoutx", "-"}) {
    EXPECT_EQ(Bad({option, "-n", "2", "true"}),
              "unknown option \"" + option +
                  "\": expected -n N, --timeout DURATION or the program (`muster help run`)");
  }
}

}  // namespace
}  // namespace muster

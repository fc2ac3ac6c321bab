#include "muster/tools/bench/options.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(OptionsTest, NothingSaidMeansAllSuitesOnTwoRanks) {
  const absl::StatusOr<Options> options = ParseOptions({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->parts, ElementsAre("create_destroy", "detection", "store", "collective"));
  EXPECT_THAT(RanksOf("create_destroy", *options), ElementsAre(2, 4, 8));
  EXPECT_THAT(RanksOf("detection", *options), ElementsAre(2, 4, 8));
  EXPECT_THAT(RanksOf("store", *options), ElementsAre(2, 16, 64, 256));
  EXPECT_THAT(RanksOf("collective", *options), ElementsAre(2));
  EXPECT_THAT(options->sizes, ElementsAre(4096, 1048576, 16777216));
  EXPECT_THAT(options->peers, ElementsAre("torch", "openmpi"));
  EXPECT_FALSE(options->seed.has_value());
}

TEST(OptionsTest, EveryFlagIsTakenInBothForms) {
  const absl::StatusOr<Options> options = ParseOptions(
      {"--suite=store,detection", "--ranks", "4,2", "--store-ranks=1024,3", "--repetitions=7",
       "--warmup=0", "--sizes=100B,12,2KiB,1GiB", "--seed=18446744073709551615", "--json",
       "out.json", "--peers=none", "--python=/opt/bin/python", "--timeout=90s"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->parts, ElementsAre("detection", "store"));
  EXPECT_THAT(RanksOf("create_destroy", *options), ElementsAre(4, 2));
  EXPECT_THAT(RanksOf("collective", *options), ElementsAre(4, 2));
  EXPECT_THAT(RanksOf("store", *options), ElementsAre(1024, 3));
  EXPECT_EQ(options->repetitions, 7);
  EXPECT_EQ(options->warmup, 0);
  EXPECT_THAT(options->sizes, ElementsAre(100, 12, 2048, 1073741824));
  EXPECT_EQ(options->seed, 18446744073709551615u);
  EXPECT_EQ(options->json, "out.json");
  EXPECT_THAT(options->peers, IsEmpty());
  EXPECT_EQ(options->python, "/opt/bin/python");
  EXPECT_EQ(options->timeout, absl::Seconds(90));
}

TEST(OptionsTest, ASuiteIsAllItsPartsOnceInOneOrder) {
  const auto parts = [](const std::string& suites) {
    return ParseOptions({"--suite=" + suites})->parts;
  };
  EXPECT_THAT(parts("lifecycle"), ElementsAre("create_destroy", "detection", "store"));
  EXPECT_THAT(parts("detection,lifecycle"), ElementsAre("create_destroy", "detection", "store"));
  EXPECT_THAT(parts("collective,create_destroy"), ElementsAre("create_destroy", "collective"));
  EXPECT_EQ(parts("all"), Options().parts);
  EXPECT_EQ(parts("collective,lifecycle"), Options().parts);
  for (const char* part : {"create_destroy", "detection", "store"}) {
    EXPECT_EQ(SuiteOf(part), "lifecycle");
  }
  EXPECT_EQ(SuiteOf("collective"), "collective");
}

TEST(OptionsTest, TheLastOneCounts) { EXPECT_EQ(ParseOptions({"--seed=1", "--seed=2"})->seed, 2u); }

TEST(OptionsTest, HelpNamesEveryFlag) {
  EXPECT_TRUE(ParseOptions({"--help"})->help);
  for (const char* flag : {"suite", "ranks", "store-ranks", "repetitions", "warmup", "sizes",
                           "seed", "json", "peers", "python", "timeout"}) {
    EXPECT_THAT(std::string(Usage()), HasSubstr(std::string("  --") + flag + "="));
  }
}

TEST(OptionsTest, WhatIsWrongIsNamedWithItsValueAndTheFormExpected) {
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::string ranks = "whole numbers from 2 to 64, each once, with commas between them";
  const std::vector<Case> cases = {
      {{"--ranks=1"}, "--ranks is \"1\": expected " + ranks},
      {{"--ranks=65"}, "--ranks is \"65\": expected " + ranks},
      {{"--ranks= 2"}, "--ranks is \" 2\": expected " + ranks},
      {{"--ranks=+2"}, "--ranks is \"+2\": expected " + ranks},
      {{"--ranks=2,"}, "--ranks is \"2,\": expected " + ranks},
      {{"--ranks=2,2"}, "--ranks is \"2,2\": expected " + ranks},
      {{"--store-ranks=1025"},
       "--store-ranks is \"1025\": expected whole numbers from 2 to 1024, each once, with commas "
       "between them"},
      {{"--ranks"}, "--ranks has no value: expected --ranks=VALUE"},
      {{"--repetitions=0"}, "--repetitions is \"0\": expected a whole number from 1 to 100000"},
      {{"--repetitions=x"}, "--repetitions is \"x\": expected a whole number from 1 to 100000"},
      {{"--warmup=-1"}, "--warmup is \"-1\": expected a whole number from 0 to 1000"},
      {{"--seed=-1"}, "--seed is \"-1\": expected a whole number below 2^64"},
      {{"--timeout=0s"}, "--timeout is \"0s\": expected a duration such as 90s or 5m"},
      {{"--timeout=inf"}, "--timeout is \"inf\": expected a duration such as 90s or 5m"},
      {{"--json="}, "--json is \"\": expected the name of a file"},
      {{"--suite=speed"},
       "--suite is \"speed\": expected all or some of lifecycle, create_destroy, detection, store, "
       "collective, each once, with commas between them"},
      {{"--suite=lifecycle,lifecycle"},
       "--suite is \"lifecycle,lifecycle\": expected all or some of lifecycle, create_destroy, "
       "detection, store, collective, each once, with commas between them"},
      {{"--peers="},
       "--peers is \"\": expected none or some of torch, openmpi, each once, with commas between "
       "them"},
      {{"--rank=2"}, "unknown flag \"--rank\": see --help"},
      {{"--frobnicate"}, "unknown flag \"--frobnicate\": see --help"},
      {{"lifecycle"}, "\"lifecycle\" is no flag: expected --NAME=VALUE, see --help"},
      {{"--"}, "\"--\" is no flag: expected --NAME=VALUE, see --help"},
  };
  for (const Case& one : cases) {
    const absl::StatusOr<Options> options = ParseOptions(one.arguments);
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(options.status().message(), one.message) << absl::StrJoin(one.arguments, " ");
  }
  for (const char* sizes : {"", "0", "3", "4KB", "2GiB", "4KiB,4096", "9223372036854775807GiB"}) {
    const absl::Status status = ParseOptions({std::string("--sizes=") + sizes}).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("multiples of 4 bytes up to 1GiB"))
        << sizes;
  }
}

TEST(OptionsTest, BytesArePrintedAsTheyAreRead) {
  for (const char* text : {"100B", "4KiB", "1MiB", "3MiB", "1GiB"}) {
    EXPECT_EQ(FormatBytes(ParseOptions({std::string("--sizes=") + text})->sizes[0]), text);
  }
}

}  // namespace
}  // namespace bench
}  // namespace muster

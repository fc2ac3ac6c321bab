// bench as its users meet it: what it measures, its JSON, its exit codes. Never how fast it is.
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/read_file.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/tools/process/child_process.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace bench {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::string* program = nullptr;

struct Outcome {
  int code = -1;
  std::string out;
  std::string errors;
};

Outcome Bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), *program);
  const ProcessOutput output = {absl::StrCat(::testing::TempDir(), "/out"),
                                absl::StrCat(::testing::TempDir(), "/errors")};
  const absl::StatusOr<RankExit> exit =
      RunProcess(arguments, Environment::OfProcess(),
                 MonotonicNow() + TimeoutScale() * absl::Minutes(2), output);
  EXPECT_TRUE(exit.ok()) << exit.status();
  return {exit.ok() ? exit->ExitCode() : -1, ReadFile(output.out).value_or(""),
          ReadFile(output.errors).value_or("")};
}

struct Measured {
  nlohmann::json json;
  std::string table;
};

// With few repetitions; the JSON is checked for what every suite's must be.
Measured Measure(const std::string& suite, const std::string& part,
                 const std::vector<std::string>& more = {}) {
  const std::string json = absl::StrCat(::testing::TempDir(), "/", part, ".json");
  std::vector<std::string> arguments = {
      absl::StrCat("--suite=", part), "--repetitions=2", "--warmup=1", "--peers=none", "--seed=7",
      absl::StrCat("--json=", json)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = Bench(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  Measured measured;
  measured.table = outcome.out;
  measured.json =
      nlohmann::json::parse(ReadFile(json).value_or(""), nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(measured.json.is_discarded());
  if (measured.json.is_discarded()) return measured;
  EXPECT_EQ(measured.json["seed"], 7);
  EXPECT_THAT(outcome.out, HasSubstr("seed 7"));
  for (const nlohmann::json& row : measured.json["results"]) {
    EXPECT_EQ(row["suite"], suite);
    EXPECT_EQ(row["samples"], 2);
    for (const char* figure : {"median", "p10", "p90"}) {
      EXPECT_GT(row[figure].get<double>(), 0) << row;
      EXPECT_TRUE(std::isfinite(row[figure].get<double>())) << row;
    }
    EXPECT_THAT(outcome.out, HasSubstr(row["case"].get<std::string>()));
    EXPECT_THAT(outcome.out, HasSubstr(row["subject"].get<std::string>()));
  }
  for (const auto& [name, ratio] : measured.json["ratios"].items()) {
    EXPECT_GT(ratio.get<double>(), 0) << name;
    EXPECT_TRUE(std::isfinite(ratio.get<double>())) << name;
    EXPECT_THAT(outcome.out, HasSubstr(name));
  }
  return measured;
}

std::vector<std::string> SubjectsOf(const nlohmann::json& json, const std::string& case_name) {
  std::vector<std::string> subjects;
  for (const nlohmann::json& row : json["results"]) {
    if (row["case"] == case_name) subjects.push_back(row["subject"]);
  }
  return subjects;
}

std::set<std::string> RatiosOf(const nlohmann::json& json) {
  std::set<std::string> names;
  for (const auto& [name, ratio] : json["ratios"].items()) names.insert(name);
  return names;
}

TEST(BenchTest, CreateDestroyMeasuresEverySubject) {
  const Measured measured = Measure("lifecycle", "create_destroy", {"--ranks=2,3"});
  EXPECT_THAT(measured.table, HasSubstr("goal: muster/gloo : gloo "));
  const nlohmann::json& json = measured.json;
  for (const char* ranks : {"2", "3"}) {
    const std::string name = absl::StrCat("create_destroy_", ranks, "_ranks");
    EXPECT_THAT(SubjectsOf(json, name),
                ElementsAre("muster/reference", "muster/gloo", "gloo", "gloo/prompt", "gloo/file"));
    EXPECT_THAT(RatiosOf(json),
                IsSupersetOf({absl::StrCat("lifecycle/", name, ": muster/gloo : gloo"),
                              absl::StrCat("lifecycle/", name, ": muster/gloo : gloo/file"),
                              absl::StrCat("lifecycle/", name, ": muster/reference : gloo")}));
  }
}

TEST(BenchTest, CollectiveMeasuresEverySizeOfEverySubject) {
  const nlohmann::json json = Measure("collective", "collective", {"--sizes=4B,64KiB"}).json;
  for (const char* size : {"4B", "64KiB"}) {
    const std::string name = absl::StrCat("all_reduce_f32_", size, "_2_ranks");
    EXPECT_THAT(SubjectsOf(json, name), ElementsAre("muster/reference", "muster/gloo", "gloo"));
    EXPECT_THAT(RatiosOf(json),
                IsSupersetOf({absl::StrCat("collective/", name, ": muster/gloo : gloo")}));
  }
}

TEST(BenchTest, DetectionMeasuresTheLastSurvivor) {
  const Measured measured = Measure("lifecycle", "detection", {"--ranks=2,3"});
  EXPECT_THAT(measured.table, HasSubstr("goal: SIGKILL known after "));
  const nlohmann::json& json = measured.json;
  for (const char* ranks : {"2", "3"}) {
    const std::string name = absl::StrCat("sigkill_", ranks, "_ranks");
    EXPECT_THAT(SubjectsOf(json, name), ElementsAre("muster/reference", "muster/gloo", "gloo"));
    EXPECT_THAT(RatiosOf(json),
                IsSupersetOf({absl::StrCat("lifecycle/", name, ": muster/gloo : gloo")}));
  }
}

TEST(BenchTest, StoreMeasuresTimeAndTheServersShareOfARank) {
  const nlohmann::json json = Measure("lifecycle", "store", {"--store-ranks=2,5"}).json;
  for (const char* ranks : {"2", "5"}) {
    std::set<std::string> seen;
    for (const nlohmann::json& row : json["results"]) {
      if (row["case"] != absl::StrCat("store_", ranks, "_ranks")) continue;
      seen.insert(
          absl::StrCat(row["subject"].get<std::string>(), ", ", row["unit"].get<std::string>()));
    }
    std::set<std::string> expected;
    for (const char* subject : {"muster/reference", "muster/gloo"}) {
      for (const char* unit : {"us", "server us/rank", "requests/rank", "bytes/rank"}) {
        expected.insert(absl::StrCat(subject, ", ", unit));
      }
    }
    EXPECT_EQ(seen, expected);
  }
}

TEST(BenchTest, APeerThatIsNotThereIsLeftOutAndSaidSo) {
  const Measured measured = Measure("lifecycle", "create_destroy",
                                    {"--ranks=2", "--peers=torch", "--python=/nonexistent/python"});
  EXPECT_THAT(measured.table, HasSubstr("torch: not installed, left out (/nonexistent/python "
                                        "cannot import torch.distributed)\n"));
  EXPECT_THAT(measured.json["left_out"]["torch"].get<std::string>(), HasSubstr("not installed"));
}

// Installed, but broken: its start is part of the run, and the run says why it failed.
TEST(BenchTest, APeerThatFailsFailsTheRunWithTheCauseAndWritesNothing) {
  const std::string python = absl::StrCat(::testing::TempDir(), "/python");
  std::ofstream(python) << "#!/bin/sh\n[ \"$1\" = -c ]\n";
  ASSERT_EQ(chmod(python.c_str(), 0700), 0);
  const std::string json = absl::StrCat(::testing::TempDir(), "/none.json");
  const Outcome outcome =
      Bench({"--suite=create_destroy", "--ranks=2", "--repetitions=2", "--peers=torch",
             absl::StrCat("--python=", python), absl::StrCat("--json=", json)});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("torch ended in its start (exited with code 1)"),
                    HasSubstr("bench: create_destroy, 2 ranks: FAILED"),
                    // Where the peer fails on both ranks alike, in the words for that.
                    AnyOf(HasSubstr("failed first"), HasSubstr("ended first"))));
  EXPECT_EQ(access(json.c_str(), F_OK), -1);
}

TEST(BenchTest, WrongFlagsAreOneLineAndExitWithTwo) {
  const Outcome ranks = Bench({"--ranks=1"});
  EXPECT_EQ(ranks.code, 2);
  EXPECT_EQ(ranks.errors,
            "bench: --ranks is \"1\": expected whole numbers from 2 to 64, each once, with commas "
            "between them\n");
  const Outcome json = Bench({"--json=/nonexistent/out.json"});
  EXPECT_EQ(json.code, 2);
  EXPECT_EQ(json.errors,
            "bench: --json is \"/nonexistent/out.json\": expected a file in a folder that is there "
            "and ours to write to\n");
  EXPECT_THAT(json.out, IsEmpty());
}

TEST(BenchTest, ARunThatTakesTooLongFails) {
  const Outcome outcome = Bench({"--suite=create_destroy", "--ranks=2", "--repetitions=100000",
                                 "--peers=none", "--timeout=300ms"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("bench: create_destroy, 2 ranks: FAILED after"));
  EXPECT_THAT(outcome.errors, HasSubstr("the timeout passed"));
  EXPECT_THAT(outcome.errors, Not(HasSubstr("INFO")));
}

TEST(BenchTest, HelpIsOnStandardOutput) {
  const Outcome outcome = Bench({"--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(absl::StartsWith(outcome.out, "usage: bench "));
}

}  // namespace
}  // namespace bench
}  // namespace muster

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  muster::bench::program = new std::string(argv[1]);
  // The program's folder for a run, too.
  setenv("TMPDIR", ::testing::TempDir().c_str(), 1);
  return RUN_ALL_TESTS();
}

// The example as a user runs it: what it prints, what it reports, and what it says to those who
// mistype. On small data, which is learnt in a moment.
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/examples/idx_writer.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int code = -1;       // of the exit; 128 + signal
  std::string output;  // both streams
};

// Single quotes keep spaces; none of our arguments has a quote.
Outcome RunProgram(const std::vector<std::string>& arguments, const std::string& variables = "") {
  const std::string program =
      absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"),
                   "/trainer/examples/fashion_mnist");
  std::string command = absl::StrCat(variables, " '", program, "'");
  for (const std::string& argument : arguments) absl::StrAppend(&command, " '", argument, "'");
  Outcome outcome;
  std::FILE* pipe = popen(absl::StrCat(command, " 2>&1").c_str(), "re");
  if (pipe == nullptr) return outcome;
  char block[4096];
  size_t got;
  while ((got = std::fread(block, 1, sizeof(block), pipe)) > 0) outcome.output.append(block, got);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

class FashionMnistTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/data of ",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    mkdir(folder_.c_str(), 0755);  // may be there from an earlier run
    WriteImageFiles(folder_, 600, 100);
    report_ = absl::StrCat(folder_, "/report.json");
  }
  std::string data() const { return absl::StrCat("--data=", folder_); }
  nlohmann::json Report() const { return nlohmann::json::parse(std::ifstream(report_)); }

  std::string folder_;
  std::string report_;
};

TEST_F(FashionMnistTest, TwoRanksTrainOnOneGroupAndLeaveNothing) {
  for (const char* backend : {"auto", "reference"}) {
    const Outcome outcome =
        RunProgram({data(), "--epochs=3", "--batch_size=10", absl::StrCat("--backend=", backend),
                    absl::StrCat("--report=", report_)});
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output,
                AllOf(HasSubstr("fit 3/3: loss"), HasSubstr("validate: loss"),
                      HasSubstr("test: loss"), HasSubstr("group train: created once"),
                      HasSubstr("reused 2 times"), HasSubstr("left: nothing")));
    const nlohmann::json report = Report();
    EXPECT_GE(report["test_accuracy"], 0.9) << report;
    EXPECT_EQ(report["epochs"], 3);
    EXPECT_GT(report["samples_per_second"], 0);
    EXPECT_EQ(report["groups_created"], 1);
    EXPECT_EQ(report["groups_reused"], 2);
    EXPECT_GT(report["create_ms"], 0);
    EXPECT_GT(report["destroy_ms"], 0);
    for (const char* what : {"groups", "fds", "threads", "segments", "keys"}) {
      EXPECT_EQ(report["left"][what], 0) << what;
    }
  }
}

TEST_F(FashionMnistTest, PerStageThereAreThreeGroups) {
  const Outcome outcome = RunProgram(
      {data(), "--epochs=1", "--group_lifetime=stage", absl::StrCat("--report=", report_)});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(Report()["groups_created"], 3);
  EXPECT_EQ(Report()["groups_reused"], 0);
  EXPECT_EQ(Report()["left"]["groups"], 0);
}

TEST_F(FashionMnistTest, OneRankAndFourRanksWork) {
  for (const char* ranks : {"--ranks=1", "--ranks=4"}) {
    const Outcome outcome =
        RunProgram({data(), "--epochs=1", ranks, absl::StrCat("--report=", report_)});
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(Report()["groups_created"], 1);
    EXPECT_EQ(Report()["left"]["fds"], 0);
  }
}

// Each ends at once, not with 0, and says what was seen and what to do.
TEST_F(FashionMnistTest, WhatIsMistypedIsNamedWithItsValueAndARemedy) {
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {{data(), "--ranks=0"}, {"'0'", "ranks", "give a whole number from 1"}},
      {{data(), "--ranks=-1"}, {"'-1'", "ranks", "give a whole number from 1"}},
      {{data(), "--epochs=0"}, {"'0'", "epochs", "give a whole number from 1"}},
      {{data(), "--epochs=x"}, {"'x'", "epochs", "give a whole number from 1"}},
      {{data(), "--batch_size=0"}, {"'0'", "batch_size"}},
      {{data(), "--lr=-1"}, {"'-1'", "lr", "greater than 0"}},
      {{data(), "--momentum=1"}, {"'1'", "momentum", "less than 1"}},
      {{data(), "--group_lifetime=for_ever"}, {"'for_ever'", "group_lifetime", "trainer", "stage"}},
      {{data(), "--rank=2"}, {"rank"}},
      {{data(), "extra"}, {"'extra' is no flag", "--help"}},
      {{data(), "--backend=carrier-pigeon"},
       {"--backend=carrier-pigeon", "carrier-pigeon", "reference"}},
      {{"--data=/nonexistent"}, {"--data=/nonexistent", "train-images-idx3-ubyte.gz"}},
      {{data(), "--report=/nonexistent/r.json"}, {"--report=/nonexistent/r.json", "folder"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(absl::StrJoin(one.arguments, " "));
    const Outcome outcome = RunProgram(one.arguments);
    EXPECT_NE(outcome.code, 0);
    for (const std::string& text : one.said) EXPECT_THAT(outcome.output, HasSubstr(text));
    EXPECT_THAT(outcome.output, Not(HasSubstr("fit 1/"))) << "nothing was started";
  }
}

TEST_F(FashionMnistTest, DamagedDataEndsEveryRankAndNamesTheFile) {
  std::string bytes = Gzip(IdxBytes({100}, std::vector<uint8_t>(100)));
  WriteFile(absl::StrCat(folder_, "/t10k-labels-idx1-ubyte.gz"), bytes.substr(0, bytes.size() / 2));
  const Outcome outcome = RunProgram({data(), "--epochs=1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("t10k-labels-idx1-ubyte.gz"), HasSubstr("fetch the file again")));
}

TEST_F(FashionMnistTest, ARankOfAnUnusableWorldSaysWhichVariableIsWrong) {
  const Outcome outcome =
      RunProgram({data()}, "RANK=5 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("RANK"), HasSubstr("5")));
}

}  // namespace
}  // namespace muster

// The example as a user runs it: what it prints and what it reports. On small data, which is learnt
// in a moment. What a user can get wrong: bad_input_test.cc.
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/trainer/examples/example_job.h"
#include "muster/trainer/examples/idx_writer.h"
#include "muster/trainer/examples/pseudo_terminal.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FashionMnistTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/data of ",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    mkdir(folder_.c_str(), 0755);  // may be there from an earlier run
    WriteImageFiles(folder_, 600, 100);
    report_ = absl::StrCat(folder_, "/report.json");
  }

  std::vector<std::string> Command(const std::vector<std::string>& more) const {
    std::vector<std::string> command = {ProgramFile("trainer/examples/fashion_mnist"),
                                        absl::StrCat("--data=", folder_)};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  static std::optional<int> End(ExampleJob& job) {
    return job.WaitForEnd(TimeoutScale() * absl::Seconds(60));
  }

  // Ends well and leaves nothing but its report.
  void RunToTheEnd(std::vector<std::string> more) {
    more.push_back(absl::StrCat("--report=", report_));
    ExampleJob job(place_, Command(more));
    ASSERT_EQ(End(job), 0) << job.Transcript();
    EXPECT_THAT(place_.Left(), IsEmpty());
    output_ = job.Output();
  }

  nlohmann::json Report() const { return nlohmann::json::parse(std::ifstream(report_)); }

  JobPlace place_;
  std::string folder_;
  std::string report_;
  std::string output_;
};

TEST_F(FashionMnistTest, TwoRanksTrainOnOneGroupAndLeaveNothing) {
  for (const char* backend : {"auto", "reference"}) {
    ASSERT_NO_FATAL_FAILURE(
        RunToTheEnd({"--epochs=3", "--batch_size=10", absl::StrCat("--backend=", backend)}));
    EXPECT_THAT(output_, AllOf(HasSubstr("fit 3/3: loss"), HasSubstr("validate: loss"),
                               HasSubstr("test: loss"), HasSubstr("group train: created once"),
                               HasSubstr("reused 2 times"), HasSubstr("left: nothing"),
                               Not(HasSubstr("\r"))));
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
    EXPECT_EQ(report["left"]["unknown"], "");
  }
}

TEST_F(FashionMnistTest, PerStageThereAreThreeGroups) {
  ASSERT_NO_FATAL_FAILURE(RunToTheEnd({"--epochs=1", "--group_lifetime=stage"}));
  EXPECT_EQ(Report()["groups_created"], 3);
  EXPECT_EQ(Report()["groups_reused"], 0);
  EXPECT_EQ(Report()["left"]["groups"], 0);
}

TEST_F(FashionMnistTest, OneRankAndFourRanksWork) {
  for (const char* ranks : {"--ranks=1", "--ranks=4"}) {
    ASSERT_NO_FATAL_FAILURE(RunToTheEnd({"--epochs=1", ranks}));
    EXPECT_EQ(Report()["groups_created"], 1);
    EXPECT_EQ(Report()["left"]["fds"], 0);
  }
}

TEST_F(FashionMnistTest, AReportThatTheDiskHasNoRoomForFailsTheRun) {
  ExampleJob job(place_, Command({"--epochs=1", "--ranks=1", "--report=/dev/full"}));
  EXPECT_EQ(End(job), 1) << job.Transcript();
  EXPECT_THAT(job.Output(), HasSubstr("--report=/dev/full: cannot write: No space left on device"));
}

// The bar of rank 0 comes through the launcher inside.
TEST_F(FashionMnistTest, OnATerminalTwoRanksDrawABarAndLeaveWholeLines) {
  constexpr int kColumns = 80;
  constexpr absl::string_view kEraseLine = "\x1b[K";
  absl::StatusOr<PseudoTerminal> terminal = PseudoTerminal::Open(kColumns);
  if (!terminal.ok()) GTEST_SKIP() << terminal.status();
  ExampleJob job(place_, Command({"--epochs=2", "--batch_size=2"}), *std::move(terminal));
  ASSERT_EQ(End(job), 0) << job.Transcript();
  EXPECT_TRUE(job.ended_with_a_line()) << job.Transcript();
  bool drawn = false;
  for (const OutputLine& line : job.lines()) {
    // What a carriage return ends was on the screen, what stands behind the last one stays there.
    for (absl::string_view rest = line.text; !rest.empty();) {
      absl::string_view shown = rest.substr(0, rest.find('\r'));
      rest.remove_prefix(std::min(shown.size() + 1, rest.size()));
      absl::ConsumePrefix(&shown, kEraseLine);
      if (absl::StartsWith(shown, "[0] fit 1/2 [") && absl::StrContains(shown, "/138  loss ")) {
        drawn = true;
        EXPECT_LT(shown.size(), size_t{kColumns}) << shown;
      }
      if (rest.empty()) {
        EXPECT_THAT(std::string(shown), Not(HasSubstr("fit 1/2 ["))) << "a bar stayed";
      }
    }
  }
  EXPECT_TRUE(drawn) << job.Transcript();
  EXPECT_THAT(job.Output(), HasSubstr(absl::StrCat("\r", kEraseLine, "[0] fit 2/2: loss")));
}

}  // namespace
}  // namespace muster

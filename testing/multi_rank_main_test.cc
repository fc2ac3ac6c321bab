// What a multi-rank test says and does when its ranks misbehave: run as Bazel runs it.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/process_tree.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

std::string* program = nullptr;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

class MultiRankMainTest : public ::testing::Test {
 protected:
  MultiRankMainTest() : folder_(absl::StrCat(::testing::TempDir(), "/job")) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/tmp");
    std::filesystem::create_directories(folder_ + "/outputs");
    variables_ = {{"TEST_TARGET", "//app:broken_gloo_2ranks"},
                  {"TEST_TMPDIR", folder_ + "/tmp"},
                  {"TEST_UNDECLARED_OUTPUTS_DIR", folder_ + "/outputs"},
                  {"XML_OUTPUT_FILE", folder_ + "/test.xml"},
                  {"TEST_PREMATURE_EXIT_FILE", folder_ + "/premature"},
                  {"TEST_TIMEOUT", "300"}};
  }

  // Starts it; its output goes to output_path().
  pid_t Start(const std::string& filter, std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(),
                     {*program, "--muster_ranks=2", "--muster_backend=reference"});
    if (!filter.empty()) arguments.push_back("--gtest_filter=" + filter);
    const pid_t pid = fork();
    if (pid != 0) return pid;
    dup2(open(output_path().c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600),
         STDOUT_FILENO);
    dup2(STDOUT_FILENO, STDERR_FILENO);
    for (const char* name : {"TEST_TOTAL_SHARDS", "TEST_SHARD_INDEX", "TEST_SHARD_STATUS_FILE",
                             "GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_SHARD_STATUS_FILE",
                             "TESTBRIDGE_TEST_ONLY", "TEST_WARNING_OUTPUT_FILE"}) {
      unsetenv(name);
    }
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(199);
  }

  int Finish(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    output_ = ReadFile(output_path());
    lines_ = absl::StrSplit(output_, '\n');
    EXPECT_THAT(LivingDescendants(), IsEmpty()) << "processes are left";
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/tmp")) << "files are left";
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/premature"));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  int Run(const std::string& filter, std::vector<std::string> arguments = {}) {
    return Finish(Start(filter, std::move(arguments)));
  }

  std::string output_path() const { return folder_ + "/output"; }
  std::string Log(int rank) {
    return ReadFile(absl::StrCat(folder_, "/outputs/rank", rank, ".log"));
  }
  std::string Xml() { return ReadFile(folder_ + "/test.xml"); }

  const ScopedSubreaper subreaper_;
  const std::string folder_;
  std::map<std::string, std::string> variables_;
  std::string output_;
  std::vector<std::string> lines_;
};

TEST_F(MultiRankMainTest, PassesWhenEveryRankDoes) {
  EXPECT_EQ(Run("GoodTest.*"), 0) << output_;
  EXPECT_THAT(lines_[0], MatchesRegex(".muster. //app:broken_gloo_2ranks PASSED after [0-9.]+ s, 2 "
                                      "ranks, 4 tests each"));
  EXPECT_THAT(Log(0), HasSubstr("rank 0 was here"));
  EXPECT_THAT(Log(1), HasSubstr("rank 1 was here"));
  EXPECT_THAT(Xml(), AllOf(HasSubstr("<testsuite name=\"rank 0\" tests=\"4\" failures=\"0\""),
                           HasSubstr("<testsuite name=\"rank 1\" tests=\"4\" failures=\"0\""),
                           HasSubstr("name=\"Passes\" classname=\"GoodTest\""),
                           HasSubstr("<skipped/>"), HasSubstr("<testcase name=\"job\"")));
}

TEST_F(MultiRankMainTest, AFailureOnOneRankFailsTheTestAndIsTheFirstLine) {
  EXPECT_EQ(Run("BadTest.FailsOnRankOne:GoodTest.Passes"), 1);
  EXPECT_THAT(lines_[0],
              MatchesRegex(
                  ".muster. //app:broken_gloo_2ranks FAILED after [0-9.]+ s, rank 1 failed first"));
  EXPECT_THAT(lines_[1],
              MatchesRegex("  rank 1  BadTest.FailsOnRankOne: label 17 out of range "
                           "\\[0, 10\\) \\(broken_ranks.cc:[0-9]+\\) +<- first failure"));
  EXPECT_THAT(lines_[2], MatchesRegex("  logs: rank0.log rank1.log in the test's outputs"));
  EXPECT_THAT(lines_[3], HasSubstr("--- rank1.log"));
  EXPECT_THAT(Xml(), AllOf(HasSubstr("<testsuite name=\"rank 0\" tests=\"2\" failures=\"0\""),
                           HasSubstr("<testsuite name=\"rank 1\" tests=\"2\" failures=\"1\""),
                           HasSubstr("label 17 out of range")));
}

TEST_F(MultiRankMainTest, ACrashIsBlamedWithItsTestAndTheOthersAreEnded) {
  EXPECT_EQ(Run("BadTest.CrashesOnRankOne"), 137);
  EXPECT_THAT(lines_[0], HasSubstr("rank 1 failed first"));
  EXPECT_THAT(lines_[1], MatchesRegex("  rank 1  BadTest.CrashesOnRankOne: killed by signal 9 +<- "
                                      "first failure"));
  EXPECT_THAT(lines_[2], MatchesRegex("  rank 0  still in BadTest.CrashesOnRankOne +ended by "
                                      "muster"));
  EXPECT_THAT(output_, HasSubstr("last words"));
  EXPECT_THAT(Xml(), HasSubstr("BadTest.CrashesOnRankOne: killed by signal 9"));
}

TEST_F(MultiRankMainTest, AnExitInATestIsAFailureWhateverItsCode) {
  EXPECT_EQ(Run("BadTest.ExitsOnRankOne"), 3);
  EXPECT_THAT(lines_[1], HasSubstr("  rank 1  BadTest.ExitsOnRankOne: exited with code 3"));
  EXPECT_EQ(Run("BadTest.PretendsToBeDoneOnRankOne"), 1);
  EXPECT_THAT(lines_[1], HasSubstr("BadTest.PretendsToBeDoneOnRankOne: exited with code 0 before "
                                   "the end of its tests"));
}

TEST_F(MultiRankMainTest, AHangEndsInsideBazelsTimeoutAndSaysWhoAndWhere) {
  variables_["TEST_TIMEOUT"] = absl::StrCat(static_cast<int>(10 * TimeoutScale()));
  EXPECT_EQ(Run("GoodTest.Passes:BadTest.HangsOnRankOne"), 124);
  EXPECT_THAT(lines_[0], ContainsRegex("the deadline of [0-9.]+ s passed while rank 1 still ran"));
  EXPECT_THAT(lines_[1], HasSubstr("  rank 1  still in BadTest.HangsOnRankOne"));
  EXPECT_THAT(Xml(), HasSubstr("the rank ended, or was ended, in this test"));
}

TEST_F(MultiRankMainTest, AHangOnOneRankIsNeitherAConsequenceNorWaitedForUntilTheDeadline) {
  EXPECT_EQ(Run("HangTest.*"), 1);
  EXPECT_THAT(lines_[0],
              MatchesRegex(".*FAILED after [0-9.]+ s, rank 0 failed first; rank 1 still ran "
                           "[0-9.]+ s after a failed rank had ended"));
  EXPECT_THAT(lines_[1], MatchesRegex("  rank 0  HangTest.AHangs.* rank 1 .*<- first failure"));
  EXPECT_THAT(lines_[2], MatchesRegex("  rank 0  HangTest.BNeeds.*rank 1 did not come to this "
                                      "test within .*: it is in HangTest.AHangs.*"));
  EXPECT_THAT(lines_[3], MatchesRegex("  rank 0  HangTest.CNeeds.*rank 1 did not come to "
                                      "this test within the time for one before.*"));
  EXPECT_THAT(lines_[4], MatchesRegex("  rank 1  still in HangTest.AHangs.* +ended by muster"));
}

TEST_F(MultiRankMainTest, AProcessThatIsLeftFailsTheTestByTheProgramsName) {
  EXPECT_EQ(Run("BadTest.LeavesADaemonOnRankOne"), 1);
  EXPECT_THAT(output_, ContainsRegex("  LEAKED by rank 1: process [0-9]+ \\(" +
                                     std::filesystem::path(*program).filename().string()));
}

TEST_F(MultiRankMainTest, AGroupThatIsLeftFailsItsTestByNameAndTheNextStartsClean) {
  EXPECT_EQ(Run("BadTest.LeaksAGroupOnRankOne:BadTest.RunsAfterALeak"), 1);
  EXPECT_THAT(lines_[1], HasSubstr("rank 1  BadTest.LeaksAGroupOnRankOne: the test leaves group "
                                   "train/1, ready"));
  EXPECT_THAT(output_, HasSubstr("  LEAKED by rank 1: group train/1, ready, 0 holders, created at "
                                 "broken_ranks.cc:1, in BadTest.LeaksAGroupOnRankOne"));
  EXPECT_THAT(output_, Not(HasSubstr("BadTest.RunsAfterALeak:")));
}

TEST_F(MultiRankMainTest, AGroupThatIsLeftAfterTheLastTestFailsTheTest) {
  variables_["BROKEN_LEAK_AT_END"] = "1";
  EXPECT_EQ(Run("GoodTest.Passes"), 1);
  EXPECT_THAT(output_, HasSubstr("LEAKED by rank 0: group train/1"));
}

TEST_F(MultiRankMainTest, AFailureWhileOthersWaitIsTheirCauseAndTheNextTestIsUnaffected) {
  EXPECT_EQ(Run("BadGroupTest.AFails*:BadGroupTest.EPasses*"), 1);
  EXPECT_THAT(lines_[1], MatchesRegex("  rank 1  BadGroupTest.AFails.*: label 17 out of range "
                                      "\\[0, 10\\) .*<- first failure"));
  EXPECT_THAT(lines_[2],
              MatchesRegex("  rank 0  BadGroupTest.AFails.*rank 1 left: \"label 17 out of range.*"
                           "consequence"));
  EXPECT_THAT(lines_[3], HasSubstr("  logs: ")) << output_;
  // What the library logged is no warning about logging.
  EXPECT_THAT(output_, Not(HasSubstr("InitializeLog")));
}

TEST_F(MultiRankMainTest, ACrashWhileOthersWaitIsTheirCause) {
  EXPECT_EQ(Run("BadGroupTest.BCrashes*"), 137);
  EXPECT_THAT(lines_[1],
              MatchesRegex("  rank 1  BadGroupTest.BCrashes.*: killed by signal 9 .*<- first "
                           "failure"));
  EXPECT_THAT(lines_[2],
              MatchesRegex("  rank 0  BadGroupTest.BCrashes.*rank 1 .*killed by signal 9.*"
                           "consequence"));
}

TEST_F(MultiRankMainTest, ARankThatToldItsGroupAndLingersIsBlamedThoughAnotherEndsBefore) {
  const int code = Run("BadGroupTest.FLeaves*");
  EXPECT_THAT(code, AnyOf(128 + SIGTERM, 128 + SIGKILL)) << output_;
  EXPECT_THAT(lines_[0], HasSubstr("rank 1 failed first"));
  EXPECT_THAT(lines_[1],
              MatchesRegex("  rank 1  BadGroupTest.FLeaves.*: rank 1 left: \"label 17 out of "
                           "range\"; ended by muster .*<- first failure"));
  EXPECT_THAT(lines_[2], MatchesRegex("  rank 0  BadGroupTest.FLeaves.*: exited with code 4 "
                                      "+consequence"));
}

TEST_F(MultiRankMainTest, AStopWhileOthersWaitIsTheirCause) {
  EXPECT_EQ(Run("BadGroupTest.CStops*"), 137);
  EXPECT_THAT(lines_[1],
              MatchesRegex("  rank 1  BadGroupTest.CStops.*: no heartbeat for .*<- first "
                           "failure"));
  EXPECT_THAT(lines_[2], MatchesRegex("  rank 0  BadGroupTest.CStops.*rank 1 .*no heartbeat for .*"
                                      "consequence"));
}

TEST_F(MultiRankMainTest, ARealGroupThatIsLeftFailsItsTestByName) {
  EXPECT_EQ(Run("BadGroupTest.DLeaks*"), 1);
  EXPECT_THAT(output_, HasSubstr("LEAKED by rank 1: group BadGroupTest.DLeaksAGroupOnRankOne/1"));
}

TEST_F(MultiRankMainTest, PeersOfATestThatLeavesAGroupAreToldWhichTest) {
  EXPECT_EQ(Run("BadGroupTest.DLeaks*"), 1);
  EXPECT_THAT(Log(0), ContainsRegex("told: .*rank 1 .*left a group open in its test "
                                    "BadGroupTest.DLeaksAGroupOnRankOne"));
}

TEST_F(MultiRankMainTest, RanksThatRunDifferentTestsAreAFailure) {
  EXPECT_EQ(Run("Ranks/Uneven.*"), 1);
  EXPECT_THAT(output_, HasSubstr("the ranks ran different tests: as number 3 rank 0 ran "
                                 "Ranks/Uneven.Test/2, rank 1 ran nothing more"));
}

TEST_F(MultiRankMainTest, BazelsTestFilterSelectsOnEveryRank) {
  variables_["TESTBRIDGE_TEST_ONLY"] = "GoodTest.PassesToo";
  EXPECT_EQ(Run(""), 0) << output_;
  EXPECT_THAT(lines_[0], HasSubstr("2 ranks, 1 tests each"));
}

TEST_F(MultiRankMainTest, ShardsSplitTheTestsAlikeOnEveryRank) {
  variables_["TEST_TOTAL_SHARDS"] = "4";
  variables_["TEST_SHARD_STATUS_FILE"] = folder_ + "/shard";
  int tests = 0;
  for (const char* index : {"0", "1", "2", "3"}) {
    variables_["TEST_SHARD_INDEX"] = index;
    EXPECT_EQ(Run("GoodTest.*"), 0) << output_;
    tests += absl::StrContains(lines_[0], "2 ranks, 1 tests each") ? 1 : 0;
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/shard"));
    std::filesystem::remove(folder_ + "/shard");
  }
  EXPECT_EQ(tests, 4);
}

TEST_F(MultiRankMainTest, ShufflingGivesEveryRankTheSameOrder) {
  EXPECT_EQ(Run("GoodTest.*", {"--gtest_shuffle", "--gtest_repeat=10"}), 0) << output_;
}

TEST_F(MultiRankMainTest, BazelsSigtermStillGivesAReport) {
  const pid_t pid = Start("BadTest.HangsOnRankOne");
  // Once rank 1 is in the test: its log says so, a file, whose growth nothing tells but looking.
  const absl::Time deadline = MonotonicNow() + TimeoutScale() * absl::Seconds(60);
  while (!absl::StrContains(Log(1), "RUN") && MonotonicNow() < deadline) {
    ASSERT_EQ(waitpid(pid, nullptr, WNOHANG), 0);
    absl::SleepFor(absl::Milliseconds(5));
  }
  kill(pid, SIGTERM);
  EXPECT_EQ(Finish(pid), 128 + SIGTERM);
  EXPECT_THAT(lines_[0], HasSubstr("stopped by SIGTERM"));
  EXPECT_THAT(output_, HasSubstr("  rank 1  still in BadTest.HangsOnRankOne"));
}

TEST_F(MultiRankMainTest, ListingTestsNeedsNoRanks) {
  EXPECT_EQ(Run("GoodTest.Pass*", {"--gtest_list_tests"}), 0);
  EXPECT_EQ(output_, "GoodTest.\n  Passes\n  PassesToo\n");
}

TEST_F(MultiRankMainTest, TheXmlGoesIntoAFolderThatIsMade) {
  EXPECT_EQ(Run("GoodTest.Passes", {"--gtest_output=xml:" + folder_ + "/new/folder/"}), 0);
  EXPECT_THAT(ReadFile(absl::StrCat(folder_, "/new/folder/",
                                    std::filesystem::path(*program).filename().string(), ".xml")),
              HasSubstr("<testsuite name=\"rank 1\""));
  EXPECT_THAT(Xml(), IsEmpty());
}

TEST_F(MultiRankMainTest, AnXmlThatCannotBeWrittenIsNoSuccess) {
  EXPECT_EQ(Run("GoodTest.Passes", {"--gtest_output=xml:" + folder_}), 125);
  EXPECT_THAT(output_, HasSubstr("[muster] the XML report cannot be written to \"" + folder_ +
                                 "\": Is a directory"));
  EXPECT_EQ(Run("GoodTest.Passes", {"--gtest_output=xml:/dev/full"}), 125);
  EXPECT_THAT(output_, HasSubstr("\"/dev/full\": No space left on device"));
  // The tests' own verdict comes first.
  EXPECT_EQ(Run("BadTest.FailsOnRankOne", {"--gtest_output=xml:/dev/full"}), 1);
}

TEST_F(MultiRankMainTest, WrongArgumentsAreNamed) {
  EXPECT_EQ(Run("", {"--gtest_output=json:x"}), 125);
  EXPECT_THAT(output_, HasSubstr("--gtest_output is \"json:x\""));
  EXPECT_EQ(Run("", {"--muster_ranks=x"}), 125);
  EXPECT_THAT(output_, HasSubstr("--muster_ranks is \"x\": expected 1 to 4096"));
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  if (argc != 2) return 2;
  muster::program = new std::string(argv[1]);
  return RUN_ALL_TESTS();
}

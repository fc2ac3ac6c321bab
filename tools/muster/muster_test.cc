// `muster` as its users meet it: a process, its output and its exit code.

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/read_file.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/tools/muster/command.h"
#include "muster/tools/process/child_process.h"

namespace muster {
namespace {

using ::testing::AllOf;

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

std::string* program = nullptr;

struct Result {
  int code = -1;
  std::string out;
  std::string errors;
};

Result Muster(std::vector<std::string> arguments,
              const std::string& out = absl::StrCat(::testing::TempDir(), "/out")) {
  const std::string errors = absl::StrCat(::testing::TempDir(), "/errors");
  arguments.insert(arguments.begin(), *program);
  const absl::StatusOr<RankExit> exit =
      RunProcess(arguments, Environment::OfProcess(),
                 MonotonicNow() + TimeoutScale() * absl::Seconds(40), {out, errors});
  EXPECT_TRUE(exit.ok()) << exit.status();
  return {exit.ok() ? exit->ExitCode() : -1,
          std::filesystem::is_regular_file(out) ? ReadFile(out).value_or("") : "",
          ReadFile(errors).value_or("")};
}

Result RunShell(int ranks, const std::string& script) {
  return Muster({"run", "-n", absl::StrCat(ranks), "--", "/bin/sh", "-c", script});
}

TEST(MusterTest, SaysItsVersionWhichIsTheModules) {
  EXPECT_EQ(Muster({"--version"}).out, absl::StrCat("muster ", kVersion, "\n"));
  EXPECT_THAT(ReadFile("MODULE.bazel").value_or(""),
              HasSubstr(absl::StrCat("version = \"", kVersion, "\"")));
}

TEST(MusterTest, HelpNamesEveryCommandAndExplainsEach) {
  const Result overview = Muster({"help"});
  EXPECT_EQ(overview.code, 0);
  for (const char* name : {"run", "doctor", "help"}) {
    EXPECT_THAT(overview.out, HasSubstr(absl::StrCat("  ", name, " ")));
    EXPECT_THAT(Muster({"help", name}).out, StartsWith(absl::StrCat("usage: muster ", name)));
  }
  EXPECT_EQ(Muster({"run", "--help"}).out, Muster({"help", "run"}).out);
}

TEST(MusterTest, WhatCannotBeWrittenIsNoSuccess) {
  for (const char* arguments : {"--version", "help", "doctor", "run -n 1 -- echo hello"}) {
    const Result result = Muster(absl::StrSplit(arguments, ' '), "/dev/full");
    EXPECT_EQ(result.code, 1) << arguments;
    EXPECT_THAT(result.errors, HasSubstr("cannot write")) << arguments;
    EXPECT_THAT(result.errors, HasSubstr("No space left on device")) << arguments;
  }
}

TEST(MusterTest, AnUnknownCommandIsNamedWithThoseThatAre) {
  const Result result = Muster({"rum"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.errors,
            "muster: unknown command \"rum\": expected one of run, doctor, help, --version\n");
  EXPECT_EQ(Muster({"help", "rum"}).code, 2);
  EXPECT_EQ(Muster({}).code, 2);
}

TEST(MusterTest, WrongArgumentsAreOneLineAndExitWithTwo) {
  const Result result = Muster({"run", "-n", "0", "true"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.errors,
            "muster run: -n is \"0\": expected the number of ranks, from 1 to 4096\n");
}

TEST(MusterTest, RunsRanksAndPutsEachLineUnderItsRank) {
  const Result result = RunShell(2, "echo $MUSTER_RANK of $WORLD_SIZE; echo oops >&2");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] 0 of 2\n"), HasSubstr("[1] 1 of 2\n")));
  EXPECT_THAT(result.errors, AllOf(HasSubstr("[0] oops\n"), HasSubstr("[1] oops\n")));
}

TEST(MusterTest, TheLastLinesSayWhoFailedFirstAndWhy) {
  const Result result =
      RunShell(2, "if [ $RANK = 1 ]; then exit 7; fi; echo last words; exec sleep 1000");
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.errors,
              MatchesRegex(".muster. FAILED after [0-9.]+ s: rank 1 \\(pid [0-9]+\\) failed first: "
                           "exited with code 7( \\(after [0-9.]+ s\\))?\n"
                           ".muster. consequences of it: rank 0 ended by muster .SIGTERM.\n"));
}

TEST(MusterTest, ProgramsThatCannotRunGiveTheShellsCodes) {
  const Result missing = Muster({"run", "-n", "2", "no-such-program"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_THAT(missing.errors, StartsWith("muster run: program \"no-such-program\" not found"));
  EXPECT_EQ(Muster({"run", "-n", "2", "--", "/"}).code, 126);
}

TEST(MusterTest, APathWithSpacesIsAPath) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/a folder");
  std::filesystem::create_directories(folder);
  const std::string script = absl::StrCat(folder, "/my program");
  std::ofstream(script) << "#!/bin/sh\necho \"$1\"\n";
  chmod(script.c_str(), 0755);
  const Result result = Muster({"run", "-n", "1", "--", script, "one argument"});
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_EQ(result.out, "[0] one argument\n");
}

// `bazel run` starts muster in the runfiles, where the user's relative paths lead nowhere.
TEST(MusterTest, UnderBazelRunARelativePathIsTheUsersAndAnErrorSaysWhereItLooked) {
  const std::string users = absl::StrCat(::testing::TempDir(), "/users");
  std::filesystem::create_directories(absl::StrCat(users, "/bazel-bin"));
  const std::string script = absl::StrCat(users, "/bazel-bin/prog");
  std::ofstream(script) << "#!/bin/sh\necho mine\n";
  chmod(script.c_str(), 0755);
  setenv("BUILD_WORKING_DIRECTORY", users.c_str(), 1);
  const Result found = Muster({"run", "-n", "1", "--", "bazel-bin/prog"});
  const Result missing = Muster({"run", "-n", "1", "--", "bazel-bin/none"});
  unsetenv("BUILD_WORKING_DIRECTORY");
  const Result outside = Muster({"run", "-n", "1", "--", "bazel-bin/prog"});

  EXPECT_EQ(found.code, 0) << found.errors;
  EXPECT_EQ(found.out, "[0] mine\n");
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(missing.code, 127);
  EXPECT_EQ(missing.errors, absl::StrCat("muster run: program \"bazel-bin/none\" not found in ",
                                         here, ": No such file or directory; nor is it ", users,
                                         "/bazel-bin/none (BUILD_WORKING_DIRECTORY)\n"));
  EXPECT_EQ(outside.code, 127);
  EXPECT_EQ(outside.errors, absl::StrCat("muster run: program \"bazel-bin/prog\" not found in ",
                                         here, ": No such file or directory\n"));
}

TEST(MusterTest, TheTimeoutEndsTheJob) {
  const Result result = Muster({"run", "-n", "1", "--timeout", "200ms", "--", "sleep", "1000"});
  EXPECT_EQ(result.code, 124);
  EXPECT_THAT(result.errors, HasSubstr("the timeout passed while rank 0 still ran"));
}

TEST(MusterTest, TheDoctorSaysWhatItSees) {
  const Result result = Muster({"doctor"});
  EXPECT_EQ(result.code, 0) << result.out;
  for (const char* line :
       {"muster ", "backends     gloo, reference ", "subreaper ", "open files ", "/dev/shm ",
        "store        can be served (tried on unix:", "launcher     rank 0 of 1 by none"}) {
    EXPECT_THAT(result.out, HasSubstr(line));
  }
  setenv("MUSTER_RANK", "x", 1);
  const Result sick = Muster({"doctor"});
  unsetenv("MUSTER_RANK");
  EXPECT_EQ(sick.code, 1);
  EXPECT_THAT(sick.out, HasSubstr("PROBLEM: MUSTER_WORLD_SIZE is not set"));
  EXPECT_EQ(Muster({"doctor", "x"}).code, 2);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  if (argc != 2) return 2;
  muster::program = new std::string(argv[1]);
  return RUN_ALL_TESTS();
}

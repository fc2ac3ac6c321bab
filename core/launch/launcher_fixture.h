// What the tests of the launcher share: ranks that do as they are told (test_rank.h), what they
// say, and a store that only remembers. Has main(), since the ranks are the test's own binary.
//
//   TEST_F(LauncherTest, ARankThatFailsIsBlamed) {
//     const JobResult result = Run(2, {"1:exit 3", "0:wait"});
//     EXPECT_EQ(result.first_failed, 1);
//   }
#ifndef MUSTER_CORE_LAUNCH_LAUNCHER_FIXTURE_H_
#define MUSTER_CORE_LAUNCH_LAUNCHER_FIXTURE_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/output_sink.h"

namespace muster {

// Keeps every line with its rank, and tells the test of each: on the launcher's own thread, so that
// what a test does then happens at a known moment.
class Capture final : public OutputSink {
 public:
  explicit Capture(int ranks) : prefixed_(ranks, -1, -1) {}

  void Write(int rank, OutputStream stream, absl::string_view bytes) override;
  void Finish(int rank, OutputStream stream) override;

  std::function<void(absl::string_view)> on_line;
  std::vector<std::string> output;
  std::vector<std::string> errors;
  int finished = 0;

 private:
  void Drain();

  PrefixedOutput prefixed_;
};

// What the launcher told its store, and the way to tell the launcher something.
struct StoreLog {
  std::vector<std::string> declared;
  std::function<void(int, std::optional<std::string>)> on_session;
  int world_size = 0;
  std::string token;
  bool destroyed = false;
  std::vector<FailedGroup> failed_groups;  // what it answers
  size_t asked_after = 99;                 // so many ranks had been declared lost, at first
};

class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest();

  // Runs the job to its end and looks whether it left anything.
  JobResult Run(int ranks, std::vector<std::string> steps);

  // Runs `then` on the launcher's thread once all these lines have come.
  void WhenAllSaid(std::set<std::string> lines, std::function<void()> then);

  static void ExpectNothingLeft();
  // The private folders of launchers, living or dead.
  static std::vector<std::string> LauncherFolders();

  JobOptions job_;
  StoreLog store_;
  std::unique_ptr<Capture> output_;
  std::map<int, pid_t> pids_;  // of ranks that printed it
  std::set<std::string> awaited_;
  std::function<void()> when_said_;
};

// The launcher in a process of its own, so that it can be killed, and its output read as it comes.
class ForkedLauncherTest : public LauncherTest {
 protected:
  // Exits with the job's code, or kLeftSome; its output goes to output_fd_, or to what `before_`
  // makes of that, which runs in the new process first.
  static constexpr int kLeftSome = 201;
  pid_t Fork(int ranks, std::vector<std::string> steps);

  // "" at the end.
  std::string ReadLine();
  // The number at the end of the next line.
  pid_t ReadPid();

  static int ExitCodeOf(pid_t pid);

  void TearDown() override;

  std::function<int(int output)> before_;
  int errors_fd_ = 2;
  int output_fd_ = -1;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_LAUNCHER_FIXTURE_H_

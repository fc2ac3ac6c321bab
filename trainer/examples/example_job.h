// A program as a user starts it, watched from outside: for tests that kill, stop and mistreat jobs.
//
//   JobPlace place;                                        // sees whatever a job leaves
//   ExampleJob job(place, {ProgramFile("trainer/examples/fashion_mnist"), "--ranks=3"});
//   std::optional<OutputLine> line = job.WaitForLine({"fit 1/"}, absl::Seconds(30));
//   ASSERT_TRUE(line.has_value()) << job.Transcript();
//   kill(job.RankPids()[1], SIGKILL);
//   EXPECT_EQ(job.WaitForEnd(absl::Seconds(3)), 137) << job.Transcript();
//   EXPECT_THAT(place.Left(), IsEmpty());
#ifndef MUSTER_TRAINER_EXAMPLES_EXAMPLE_JOB_H_
#define MUSTER_TRAINER_EXAMPLES_EXAMPLE_JOB_H_

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/process_tree.h"
#include "muster/trainer/examples/pseudo_terminal.h"

namespace muster {

// Where jobs run: a temporary folder of their own, and this process as the parent of whatever they
// lose. One at a time.
class JobPlace {
 public:
  JobPlace();
  // Kills every process below this one.
  ~JobPlace();
  JobPlace(const JobPlace&) = delete;
  JobPlace& operator=(const JobPlace&) = delete;

  // TMPDIR of the jobs.
  const std::string& temporary_folder() const { return temporary_folder_; }

  // Living processes below this one, files in the temporary folder and segments in /dev/shm that
  // were not there before. Empty once every job has ended and left nothing.
  std::vector<std::string> Left() const;

 private:
  const ScopedSubreaper subreaper_;
  const std::string temporary_folder_;
  const std::set<std::string> segments_before_;
};

struct OutputLine {
  absl::Time at;  // when it was read, of MonotonicNow
  std::string text;
};

// Both streams of the program come in one. In a process group of its own, as a shell does it. Not
// thread-safe; output is read while one of the waits runs, so time is measured by whoever waits.
class ExampleJob {
 public:
  using Variables = std::map<std::string, std::string>;

  // `variables` come on top of this process's environment, without what a launcher around this test
  // may have set. Aborts the test's process when there are no pipes or processes left.
  ExampleJob(const JobPlace& place, std::vector<std::string> command, Variables variables = {});
  // With both streams on `terminal`.
  ExampleJob(const JobPlace& place, std::vector<std::string> command, PseudoTerminal terminal);
  // Kills it if it runs.
  ~ExampleJob();
  ExampleJob(const ExampleJob&) = delete;
  ExampleJob& operator=(const ExampleJob&) = delete;

  pid_t pid() const { return pid_; }

  // The processes that it started as ranks.
  std::map<int, pid_t> RankPids() const;

  // The first line that holds all of `parts`. Empty when it did not come within `within`, or the
  // output ended without it.
  std::optional<OutputLine> WaitForLine(const std::vector<std::string>& parts,
                                        absl::Duration within);

  // The exit code, or 128 + the signal that ended it. Empty when it still ran after `within`.
  // Once it has ended all that it wrote has been read.
  std::optional<int> WaitForEnd(absl::Duration within);

  const std::vector<OutputLine>& lines() const { return lines_; }
  // The lines, one below the other.
  std::string Output() const;
  // Whether the last byte ended a line. Once it has ended.
  bool ended_with_a_line() const { return ended_with_a_line_; }
  // The command, every line with its time, and how it ended: for messages of failed tests.
  std::string Transcript() const;

 private:
  // With both streams on the descriptor `output`, which it closes.
  void Start(const JobPlace& place, const Variables& variables, int output);
  // Reads what is there, or waits for it until `until`; finds out when the output has ended.
  void ReadSome(absl::Time until);
  void TakeLines(absl::string_view bytes);
  bool Reap();

  const std::vector<std::string> command_;
  pid_t pid_ = -1;
  int fd_ = -1;  // of the output; -1 once it has ended
  std::string partial_;
  bool ended_with_a_line_ = true;
  std::vector<OutputLine> lines_;
  absl::Time started_;
  std::optional<int> code_;
};

// A program that the test has in its `data`: "trainer/examples/fashion_mnist".
std::string ProgramFile(const std::string& path);

}  // namespace muster

#endif  // MUSTER_TRAINER_EXAMPLES_EXAMPLE_JOB_H_

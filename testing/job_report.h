// What a multi-rank test says at its end: who failed first, why, what is its consequence, what is
// left; and the same as JUnit XML, one suite a rank. Pure.
#ifndef MUSTER_TESTING_JOB_REPORT_H_
#define MUSTER_TESTING_JOB_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/job_result.h"
#include "muster/testing/rank_events.h"

namespace muster {
namespace testing {

struct JobFacts {
  std::string name;  // "//app:train_test_gloo_2ranks"
  JobResult result;
  absl::Duration started;  // HostTime() at result.start: when the ranks ran, not when we began
  absl::Duration deadline = absl::InfiniteDuration();
  absl::Duration straggler_grace = absl::InfiniteDuration();
  std::vector<RankRecord> ranks;  // as many as result.ranks
  std::vector<std::string> logs;  // "rank0.log", ...
  std::string logs_in;            // "the test's outputs", or a folder
};

// Judges once, at construction.
class JobReport {
 public:
  explicit JobReport(JobFacts facts);

  bool ok() const { return ok_; }
  // 0; else never 0.
  int ExitCode() const;

  // "[muster] //app:train_test_gloo_2ranks FAILED after 1.3 s, rank 1 failed first", then a line
  // for each failure, leak and log; one line for a success.
  std::vector<std::string> Lines() const;

  // The ranks whose logs are worth reading, the first to fail first.
  const std::vector<int>& blamed() const { return blamed_; }

  // One suite a rank with a case for each of its tests, and a suite "muster" with the verdict.
  std::string Xml() const;

 private:
  struct Entry {
    absl::Duration at;
    int rank = 0;
    std::string text;          // "TrainTest.Validates: label 17 out of range (reader.cc:88)"
    std::string test;          // "" outside of one
    bool fatal = false;        // the rank is gone: what follows in others may be its consequence
    bool ended_by_us = false;  // was in it when the launcher ended the rank
  };

  void Judge();
  void JudgeRank(int rank);
  // A rank that did not come to the end of its tests.
  void JudgeEnd(int rank);
  void CompareTests();
  // What stands behind a line that is not the first failure's.
  absl::string_view Mark(const Entry& entry) const;
  // A failure that quotes what a rank told its group comes after that rank's own.
  void BlameByRecord();

  JobFacts facts_;
  bool ok_ = true;
  std::vector<Entry> entries_;        // in the order of blame
  std::vector<std::string> leaks_;    // "LEAKED by rank 0: group ..."
  std::vector<std::string> remarks_;  // what is wrong with the job as a whole
  std::vector<int> blamed_;
};

}  // namespace testing
}  // namespace muster

#endif  // MUSTER_TESTING_JOB_REPORT_H_

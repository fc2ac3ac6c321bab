// What a rank of a multi-rank test tells its launcher while it runs: one line an event, written at
// once, so that it is there however the rank ends. Read after the job, it says which rank failed
// first, and in which test a rank was when it died or hung.
#ifndef MUSTER_TESTING_RANK_EVENTS_H_
#define MUSTER_TESTING_RANK_EVENTS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {
namespace testing {

// Time since the host started: comparable between the processes of one host.
absl::Duration HostTime();
// What HostTime() was when MonotonicNow() was `time`.
absl::Duration ToHostTime(absl::Time time);

struct TestFailure {
  absl::Duration at;
  std::string where;    // "train_test.cc:31", "" where unknown
  std::string message;  // may have several lines
};

struct TestRecord {
  enum class Outcome { kRunning, kPassed, kFailed, kSkipped };

  std::string suite;
  std::string name;
  absl::Duration started;
  absl::Duration ended;
  Outcome outcome = Outcome::kRunning;
  std::vector<TestFailure> failures;

  std::string FullName() const { return suite + "." + name; }
};

struct LeakedGroup {
  std::string test;   // "TrainTest.Validates", "" outside of a test
  std::string group;  // "train/1, ready, created at train_test.cc:31"
};

// All that one rank told.
struct RankRecord {
  std::vector<TestRecord> tests;     // in the order they ran
  std::vector<TestFailure> outside;  // failures outside of a test: of a suite, of an environment
  std::vector<LeakedGroup> leaked;
  std::optional<int> finished_with;  // all tests ran to their end; the code that follows from them

  // The test that began and has not ended.
  const TestRecord* running() const;
};

class RankEventWriter {
 public:
  static absl::StatusOr<std::unique_ptr<RankEventWriter>> Open(const std::string& path);

  void Started(absl::string_view suite, absl::string_view name);
  // In the test that started last, or outside when that has ended.
  void Failed(absl::string_view where, absl::string_view message);
  void Leaked(absl::string_view test, absl::string_view group);
  void Ended(TestRecord::Outcome outcome);
  void Finished(int code);

 private:
  explicit RankEventWriter(UniqueFd fd);
  void Write(const std::vector<std::string>& fields);

  UniqueFd fd_;
};

// What is not there yet or was cut off by a crash is left out; a line that makes no sense is an
// error.
absl::StatusOr<RankRecord> ReadRankEvents(const std::string& path);
absl::StatusOr<RankRecord> ParseRankEvents(absl::string_view text);

}  // namespace testing
}  // namespace muster

#endif  // MUSTER_TESTING_RANK_EVENTS_H_

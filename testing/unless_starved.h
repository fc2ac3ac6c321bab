// For tests of a bound in seconds: no program keeps one without a processor, so on a machine that
// gives it none a failure says nothing, and is tried again.
//
//   TEST(KillTest, IsKnownWithinASecond) {
//     UnlessStarved([] {
//       Job job;                     // all that it needs, new each time
//       EXPECT_LE(job.KnownAfterKill(), absl::Seconds(1));
//     });
//   }
#ifndef MUSTER_TESTING_UNLESS_STARVED_H_
#define MUSTER_TESTING_UNLESS_STARVED_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"

namespace muster::testing {

// While it lives, looks how long a thread that has little to do waits for a processor.
class StarvationMeter {
 public:
  StarvationMeter();
  ~StarvationMeter();
  StarvationMeter(const StarvationMeter&) = delete;
  StarvationMeter& operator=(const StarvationMeter&) = delete;

  // The longest that it had to.
  absl::Duration Longest() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

struct Attempts {
  int at_most = 5;
  // Waits that a busy machine has at any time. The shortest bounds of the contract are 200 ms.
  absl::Duration tolerated = absl::Milliseconds(50);
  // How long the machine kept an attempt waiting. Null: a StarvationMeter says it.
  std::function<absl::Duration()> longest_wait;
};

// Runs `scenario` until it has no failure, or has one on a machine that did not keep it waiting:
// that one is the test's. Skips the test, with the failures printed, where no attempt was worth
// anything. Checks on threads of the scenario's own are not held back: they are the test's.
void UnlessStarved(const std::function<void()>& scenario, const Attempts& attempts = {});

}  // namespace muster::testing

#endif  // MUSTER_TESTING_UNLESS_STARVED_H_

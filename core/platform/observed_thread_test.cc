#include "muster/core/platform/observed_thread.h"

#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

absl::Time Later() { return MonotonicNow() + absl::Seconds(10) * TimeoutScale(); }

TEST(ObservedThreadTest, OneThatWaitsIsAsleepAndOneThatReturnedIsToo) {
  absl::Notification go_on;
  ObservedThread waits([&] { go_on.WaitForNotification(); });
  EXPECT_TRUE(waits.AwaitAsleep(Later()));
  go_on.Notify();
  waits.join();
  EXPECT_TRUE(waits.AwaitAsleep(Later()));
}

TEST(ObservedThreadTest, OneThatRunsIsNot) {
  std::atomic<bool> end{false};
  ObservedThread runs([&] {
    while (!end) {
    }
  });
  EXPECT_FALSE(runs.AwaitAsleep(MonotonicNow() + absl::Milliseconds(20)));
  end = true;
  runs.join();
}

}  // namespace
}  // namespace muster

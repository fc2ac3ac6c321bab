#include "muster/core/platform/cancellation.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/observed_thread.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

TEST(CancellationTest, TheFirstCauseWinsAndEveryCallbackSeesItOnceInOrder) {
  Cancellation cancellation;
  EXPECT_FALSE(cancellation.cancelled());
  std::vector<std::string> seen;
  auto first = cancellation.OnCancel(
      [&](const absl::Status& cause) { seen.push_back("first " + std::string(cause.message())); });
  auto second = cancellation.OnCancel(
      [&](const absl::Status& cause) { seen.push_back("second " + std::string(cause.message())); });
  EXPECT_TRUE(cancellation.Cancel(absl::AbortedError("a")));
  EXPECT_FALSE(cancellation.Cancel(absl::AbortedError("b")));
  EXPECT_EQ(seen, (std::vector<std::string>{"first a", "second a"}));
  EXPECT_EQ(cancellation.status(), absl::AbortedError("a"));
}

TEST(CancellationTest, AfterCancelACallbackRunsInsideItsRegistration) {
  Cancellation cancellation;
  cancellation.Cancel(absl::AbortedError("a"));
  absl::Status seen;
  auto registration = cancellation.OnCancel([&](const absl::Status& cause) { seen = cause; });
  EXPECT_EQ(seen, absl::AbortedError("a"));
}

TEST(CancellationTest, AnOkCauseStillCancels) {
  Cancellation cancellation;
  EXPECT_TRUE(cancellation.Cancel(absl::OkStatus()));
  EXPECT_TRUE(cancellation.cancelled());
}

TEST(CancellationTest, AResetCallbackNeverRunsAndMovedRegistrationsKeepTheirs) {
  Cancellation cancellation;
  int calls = 0;
  auto reset = cancellation.OnCancel([&](const absl::Status&) { calls += 1; });
  auto moved = cancellation.OnCancel([&](const absl::Status&) { calls += 10; });
  auto overwritten = cancellation.OnCancel([&](const absl::Status&) { calls += 100; });
  reset.Reset();
  reset.Reset();
  overwritten = std::move(moved);
  cancellation.Cancel(absl::AbortedError("a"));
  EXPECT_EQ(calls, 10);
}

TEST(CancellationTest, ResetWaitsForACallbackThatRunsOnAnotherThread) {
  Cancellation cancellation;
  absl::Notification started;
  absl::Notification go_on;
  std::atomic<bool> done{false};
  auto registration = cancellation.OnCancel([&](const absl::Status&) {
    started.Notify();
    go_on.WaitForNotification();
    done = true;
  });
  std::thread canceller([&] { cancellation.Cancel(absl::AbortedError("a")); });
  started.WaitForNotification();
  absl::Notification reset;
  std::atomic<bool> reset_returned{false};
  ObservedThread resetter([&] {
    reset.Notify();
    registration.Reset();
    EXPECT_TRUE(done);
    reset_returned = true;
  });
  // Not before Reset waits, or has returned without: the callback runs until then.
  reset.WaitForNotification();
  EXPECT_TRUE(resetter.AwaitAsleep(MonotonicNow() + absl::Seconds(10) * TimeoutScale()));
  EXPECT_FALSE(reset_returned);
  go_on.Notify();
  resetter.join();
  canceller.join();
  EXPECT_TRUE(reset_returned);
}

TEST(CancellationTest, ACallbackMayResetItselfAndOthersWithoutDeadlock) {
  Cancellation cancellation;
  Cancellation::Registration self;
  Cancellation::Registration other;
  int other_calls = 0;
  self = cancellation.OnCancel([&](const absl::Status&) {
    self.Reset();
    other.Reset();
    EXPECT_FALSE(cancellation.Cancel(absl::AbortedError("again")));
    EXPECT_TRUE(cancellation.cancelled());
  });
  other = cancellation.OnCancel([&](const absl::Status&) { ++other_calls; });
  EXPECT_TRUE(cancellation.Cancel(absl::AbortedError("a")));
  EXPECT_EQ(other_calls, 0);
}

TEST(CancellationTest, ManyThreadsRegisterResetAndCancelWithoutATouchAfterReset) {
  for (int round = 0; round < 50; ++round) {
    Cancellation cancellation;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          auto alive = std::make_unique<int>(0);
          auto registration = cancellation.OnCancel([&alive](const absl::Status&) { ++*alive; });
          registration.Reset();
          alive.reset();  // a later run of the callback would be a use of null
        }
      });
    }
    threads.emplace_back([&] { cancellation.Cancel(absl::AbortedError("a")); });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace muster

#include "muster/core/collective/work.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/wall_clock_jump.h"

namespace muster {
namespace {

const bool wall_clock_jumped = PutWallClockForward();

TEST(WorkTest, AnEmptyOneIsFinished) {
  Work work;
  EXPECT_TRUE(work.done());
  EXPECT_TRUE(work.Wait().ok());
}

TEST(WorkTest, WaitGivesTheResultAnyNumberOfTimes) {
  auto state = std::make_shared<WorkState>();
  Work work(state);
  EXPECT_FALSE(work.done());
  std::thread worker([state] { state->Finish(absl::UnavailableError("rank 3 was lost")); });
  EXPECT_EQ(work.Wait(), absl::UnavailableError("rank 3 was lost"));
  EXPECT_EQ(work.Wait(absl::InfinitePast()), absl::UnavailableError("rank 3 was lost"));
  EXPECT_TRUE(work.done());
  worker.join();
}

TEST(WorkTest, ADeadlineOfWaitCancelsNothing) {
  auto state = std::make_shared<WorkState>();
  Work work(state);
  EXPECT_EQ(work.Wait(absl::InfinitePast()).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(work.done());
  state->Finish(absl::OkStatus());
  EXPECT_TRUE(work.Wait(absl::InfinitePast()).ok());
}

TEST(WorkTest, AWallClockThatWasPutForwardEndsNoWaitEarly) {
  ASSERT_TRUE(wall_clock_jumped);
  auto state = std::make_shared<WorkState>();
  Work work(state);
  const absl::Time deadline = MonotonicNow() + absl::Milliseconds(100);
  EXPECT_EQ(work.Wait(deadline).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(MonotonicNow(), deadline);
  state->Finish(absl::OkStatus());
}

TEST(WorkTest, TheFirstResultCounts) {
  WorkState state;
  state.Finish(absl::AbortedError("first"));
  state.Finish(absl::OkStatus());
  EXPECT_EQ(state.Wait(absl::InfinitePast()), absl::AbortedError("first"));
}

TEST(WorkTest, TheDestructorWaits) {
  auto state = std::make_shared<WorkState>();
  std::atomic<bool> finished{false};
  absl::Notification started;
  std::thread worker([&] {
    started.WaitForNotification();
    finished = true;
    state->Finish(absl::OkStatus());
  });
  {
    Work work(state);
    started.Notify();
  }
  EXPECT_TRUE(finished);
  worker.join();
}

TEST(WorkTest, AssignmentWaitsForWhatItReplaces) {
  auto first = std::make_shared<WorkState>();
  auto second = std::make_shared<WorkState>();
  std::atomic<bool> finished{false};
  absl::Notification started;
  Work work(first);
  std::thread worker([&] {
    started.WaitForNotification();
    finished = true;
    first->Finish(absl::OkStatus());
  });
  started.Notify();
  work = Work(second);
  EXPECT_TRUE(finished);
  EXPECT_FALSE(work.done());
  second->Finish(absl::AbortedError("second"));
  EXPECT_EQ(work.Wait(), absl::AbortedError("second"));
  worker.join();
}

TEST(WorkTest, MovingTakesTheOperationAlong) {
  auto state = std::make_shared<WorkState>();
  Work from(state);
  Work to(std::move(from));
  EXPECT_FALSE(to.done());
  state->Finish(absl::OkStatus());
  EXPECT_TRUE(to.done());
}

}  // namespace
}  // namespace muster

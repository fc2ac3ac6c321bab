#include "muster/core/collective/work.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
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

TEST(WorkTest, OneThatIsMadeWithItsResultIsFinished) {
  Work work(absl::InvalidArgumentError("a misuse"));
  EXPECT_TRUE(work.done());
  EXPECT_EQ(work.Wait(absl::InfinitePast()), absl::InvalidArgumentError("a misuse"));
  Work moved(std::move(work));
  EXPECT_EQ(moved.Wait(), absl::InvalidArgumentError("a misuse"));
  EXPECT_TRUE(work.Wait().ok());  // NOLINT(bugprone-use-after-move): empty is the promise
}

// Runs `check` in a forked child, which has 30 s, and tells whether it returned true there.
bool InChild(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(WorkTest, InAForkedChildNothingIsWaitedForAndWaitSaysWhy) {
  auto state = std::make_shared<WorkState>();
  Work work(state);
  EXPECT_TRUE(InChild([&] {
    const absl::Status status = work.Wait();
    const bool refused = work.done() && absl::IsFailedPrecondition(status) &&
                         status.message().find("forked child") != absl::string_view::npos;
    work = Work();                       // neither assignment
    const Work other(std::move(state));  // nor the destructor
    return refused;
  }));
  EXPECT_FALSE(work.done());
  state->Finish(absl::OkStatus());
  EXPECT_TRUE(work.Wait().ok()) << "the parent's goes on";
}

// Whoever holds it at the fork is not in the child, and never lets go of it there.
TEST(WorkTest, InAForkedChildTheLockOfTheParentIsNotTaken) {
  auto state = std::make_shared<WorkState>();
  auto work = std::make_unique<Work>(state);
  std::atomic<bool> stop{false};
  std::thread holder([&] {
    while (!stop) (void)state->finished();
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(InChild([&] {
      const bool done = work->done() && absl::IsFailedPrecondition(work->Wait());
      work.reset();
      return done;
    }));
  }
  stop = true;
  holder.join();
  state->Finish(absl::OkStatus());
}

}  // namespace
}  // namespace muster

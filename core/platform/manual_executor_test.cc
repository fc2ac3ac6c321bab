#include "muster/core/platform/manual_executor.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ManualExecutorTest, RunsTasksInTheOrderOfPostAndNeverInsideIt) {
  ManualExecutor executor;
  std::string order;
  executor.Post([&] {
    order += "a";
    executor.Post([&] { order += "c"; });
    EXPECT_EQ(order, "a");
  });
  executor.Post([&] { order += "b"; });
  EXPECT_EQ(order, "");
  EXPECT_EQ(executor.RunUntilIdle(), 3u);
  EXPECT_EQ(order, "abc");
  EXPECT_FALSE(executor.RunOne());
}

TEST(ManualExecutorTest, AdvanceStopsAtEachTimerInOrderOfTimeThenOfPostAt) {
  ManualExecutor executor;
  const absl::Time start = executor.Now();
  std::vector<absl::Duration> at;
  std::string order;
  const auto note = [&](const char* name) {
    return [&, name] {
      order += name;
      at.push_back(executor.Now() - start);
    };
  };
  executor.PostAt(start + absl::Seconds(2), note("c"));
  executor.PostAt(start + absl::Seconds(1), [&] {
    note("a")();
    executor.PostAt(executor.Now() + absl::Milliseconds(500), note("b"));
  });
  executor.PostAt(start + absl::Seconds(2), note("d"));
  executor.PostAt(start + absl::Seconds(9), note("later"));
  executor.PostAt(absl::InfiniteFuture(), note("never"));
  executor.AdvanceTo(start + absl::Seconds(5));
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(at, (std::vector<absl::Duration>{absl::Seconds(1), absl::Milliseconds(1500),
                                             absl::Seconds(2), absl::Seconds(2)}));
  EXPECT_EQ(executor.Now(), start + absl::Seconds(5));
  EXPECT_EQ(executor.NextTimer(), start + absl::Seconds(9));
}

TEST(ManualExecutorTest, ACancelledTimerNeverRunsAndGivesItsCapturesBack) {
  ManualExecutor executor;
  auto held = std::make_shared<int>(0);
  const auto timer = executor.PostAt(executor.Now() + absl::Seconds(1), [held] { ++*held; });
  EXPECT_EQ(held.use_count(), 2);
  executor.Cancel(timer);
  EXPECT_EQ(held.use_count(), 1);
  executor.Cancel(timer);
  executor.Cancel(4711);
  executor.AdvanceBy(absl::Seconds(2));
  EXPECT_EQ(*held, 0);
}

TEST(ManualExecutorTest, RunsHereIsTrueInsideATaskOnly) {
  ManualExecutor executor;
  EXPECT_FALSE(executor.RunsHere());
  bool inside = false;
  executor.Post([&] { inside = executor.RunsHere(); });
  executor.RunUntilIdle();
  EXPECT_TRUE(inside);
  EXPECT_FALSE(executor.RunsHere());
}

TEST(ManualExecutorTest, TasksThatPostEachOtherForEverStopAtTheLimit) {
  ManualExecutor executor;
  std::function<void()> again = [&] { executor.Post(again); };
  executor.Post(again);
  EXPECT_EQ(executor.RunUntilIdle(100), 100u);
  EXPECT_EQ(executor.AdvanceTo(executor.Now() + absl::Seconds(1), 100), 100u);
}

}  // namespace
}  // namespace muster

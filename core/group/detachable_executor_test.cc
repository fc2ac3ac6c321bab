#include "muster/core/group/detachable_executor.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

class ByHand final : public Executor {
 public:
  absl::Time Now() const override { return now; }
  void Post(Task task) override { tasks.push_back(std::move(task)); }
  TimerId PostAt(absl::Time, Task task) override {
    tasks.push_back(std::move(task));
    return 7;
  }
  void Cancel(TimerId) override { ++cancelled; }
  bool RunsHere() const override { return true; }

  absl::Time now = absl::FromUnixSeconds(1000);
  std::vector<Task> tasks;
  int cancelled = 0;
};

TEST(DetachableExecutorTest, PassesEverythingOn) {
  ByHand target;
  DetachableExecutor executor(&target);
  executor.Post([] {});
  EXPECT_EQ(executor.PostAt(target.now, [] {}), 7u);
  executor.Cancel(7);
  EXPECT_EQ(target.tasks.size(), 2u);
  EXPECT_EQ(target.cancelled, 1);
  EXPECT_EQ(executor.Now(), target.now);
  EXPECT_TRUE(executor.RunsHere());
}

TEST(DetachableExecutorTest, DropsWhatComesAfterTheTargetIsGone) {
  auto target = std::make_unique<ByHand>();
  DetachableExecutor executor(target.get());
  const absl::Time end = target->now;
  executor.Detach();
  target.reset();
  auto held = std::make_shared<int>(1);
  executor.Post([held] {});
  executor.PostAt(end, [held] {});
  EXPECT_EQ(held.use_count(), 1) << "what a dropped task holds is let go";
  executor.Cancel(7);
  EXPECT_EQ(executor.Now(), end);
  EXPECT_FALSE(executor.RunsHere());
  executor.Detach();
}

}  // namespace
}  // namespace muster

#include "muster/core/group/operation_watch.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group/detachable_executor.h"
#include "muster/core/platform/executor.h"
#include "muster/core/platform/manual_executor.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Counts how often it is woken up for a timer.
class CountingExecutor final : public Executor {
 public:
  explicit CountingExecutor(ManualExecutor* target) : target_(target) {}
  int timers() const { return timers_; }

  absl::Time Now() const override { return target_->Now(); }
  void Post(Task task) override { target_->Post(std::move(task)); }
  TimerId PostAt(absl::Time when, Task task) override {
    ++timers_;
    return target_->PostAt(when, std::move(task));
  }
  void Cancel(TimerId timer) override { target_->Cancel(timer); }
  bool RunsHere() const override { return target_->RunsHere(); }

 private:
  ManualExecutor* const target_;
  int timers_ = 0;
};

class OperationWatchTest : public ::testing::Test {
 protected:
  std::shared_ptr<OperationWatch> Watch(std::shared_ptr<Executor> executor) {
    return std::make_shared<OperationWatch>(
        std::move(executor), absl::Seconds(1),
        [this](absl::string_view label, absl::Duration timeout) {
          late_.push_back(absl::StrCat(label, " ", absl::FormatDuration(timeout)));
        });
  }

  ManualExecutor executor_;
  std::shared_ptr<CountingExecutor> counting_ = std::make_shared<CountingExecutor>(&executor_);
  std::vector<std::string> late_;
  std::shared_ptr<OperationWatch> watch_ = Watch(counting_);
};

TEST_F(OperationWatchTest, NamesWhatIsInsideAfterItsTimeoutAndTheMarginOnce) {
  watch_->Enter("all_reduce #1", absl::Seconds(10));
  executor_.AdvanceBy(absl::Milliseconds(10999));
  EXPECT_THAT(late_, IsEmpty()) << "the backend may still say it itself";
  executor_.AdvanceBy(absl::Milliseconds(1));
  EXPECT_THAT(late_, ElementsAre("all_reduce #1 10s"));
  executor_.AdvanceBy(absl::Hours(1));
  EXPECT_EQ(late_.size(), 1u);
  watch_->Leave();
  watch_->Enter("all_reduce #2", absl::Seconds(5));
  executor_.AdvanceBy(absl::Seconds(6));
  EXPECT_THAT(late_, ElementsAre("all_reduce #1 10s", "all_reduce #2 5s"));
}

TEST_F(OperationWatchTest, ManyOperationsWakeTheExecutorOnceInATimeout) {
  for (int i = 0; i < 9000; ++i) {  // 90 s
    watch_->Enter("barrier", absl::Seconds(9));
    executor_.AdvanceBy(absl::Milliseconds(10));
    watch_->Leave();
  }
  EXPECT_THAT(late_, IsEmpty());
  EXPECT_LE(counting_->timers(), 10);
}

TEST_F(OperationWatchTest, TheOneThatIsInsideWhenTheTimerFiresHasItsWholeTime) {
  watch_->Enter("barrier #1", absl::Seconds(9));
  executor_.AdvanceBy(absl::Seconds(8));
  watch_->Leave();
  watch_->Enter("barrier #2", absl::Seconds(9));
  executor_.AdvanceBy(absl::Milliseconds(9999));
  EXPECT_THAT(late_, IsEmpty());
  executor_.AdvanceBy(absl::Milliseconds(1));
  EXPECT_THAT(late_, ElementsAre("barrier #2 9s"));
}

// Each lease has its own.
TEST_F(OperationWatchTest, AShorterTimeoutDoesNotWaitForTheTimerOfALongerOne) {
  watch_->Enter("barrier #1", absl::Hours(1));
  watch_->Leave();
  watch_->Enter("barrier #2", absl::Seconds(1));
  executor_.AdvanceBy(absl::Seconds(2));
  EXPECT_THAT(late_, ElementsAre("barrier #2 1s"));
  watch_->Leave();
  executor_.AdvanceBy(absl::Hours(2));
  EXPECT_EQ(late_.size(), 1u);
}

TEST_F(OperationWatchTest, TimeoutsOfManyLengthsLeaveOneTimer) {
  for (int i = 0; i < 10; ++i) {
    watch_->Enter("long", absl::Hours(1));
    watch_->Leave();
    watch_->Enter("short", absl::Seconds(1));
    watch_->Leave();
    executor_.AdvanceBy(absl::Seconds(2));
  }
  EXPECT_EQ(executor_.NextTimer(), absl::InfiniteFuture()) << "and none when nothing is inside";
}

TEST_F(OperationWatchTest, OneWithoutATimeoutNeedsNoTimer) {
  watch_->Enter("all_reduce #1", absl::InfiniteDuration());
  EXPECT_EQ(counting_->timers(), 0);
  executor_.AdvanceBy(absl::Hours(1000));
  EXPECT_THAT(late_, IsEmpty());
}

TEST_F(OperationWatchTest, AfterStopItHasNoTimerAndTellsNothing) {
  watch_->Enter("all_reduce #1", absl::Seconds(1));
  watch_->Stop();
  EXPECT_EQ(executor_.NextTimer(), absl::InfiniteFuture());
  watch_->Enter("all_reduce #2", absl::Seconds(1));
  EXPECT_EQ(executor_.NextTimer(), absl::InfiniteFuture());
  executor_.AdvanceBy(absl::Seconds(10));
  EXPECT_THAT(late_, IsEmpty());
}

TEST_F(OperationWatchTest, ATimerMayOutliveIt) {
  watch_->Enter("all_reduce #1", absl::Seconds(1));
  watch_ = nullptr;
  executor_.AdvanceBy(absl::Seconds(10));
  EXPECT_THAT(late_, IsEmpty());
}

// What is left behind in a backend may come back when the pool is gone.
TEST_F(OperationWatchTest, AnExecutorThatIsGoneIsNoMatter) {
  auto detachable = std::make_shared<DetachableExecutor>(counting_.get());
  watch_ = Watch(detachable);
  watch_->Enter("all_reduce #1", absl::Seconds(1));
  detachable->Detach();
  watch_->Leave();
  watch_->Enter("all_reduce #2", absl::Seconds(1));
  watch_->Leave();
  watch_->Stop();
  EXPECT_EQ(counting_->timers(), 1);
}

}  // namespace
}  // namespace muster

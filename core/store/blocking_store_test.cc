#include "muster/core/store/blocking_store.h"

#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/memory_store.h"
#include "muster/core/store/store_test_util.h"

namespace muster {
namespace {

using store_testing::Soon;
using ::testing::HasSubstr;

class BlockingStoreTest : public ::testing::Test {
 protected:
  BlockingStoreTest() : server_(MemoryStoreServer::Options{2, absl::ZeroDuration()}) {
    auto control = ControlThread::Start();
    EXPECT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
    for (int rank = 0; rank < 2; ++rank) {
      SessionInfo info;
      info.rank = rank;
      info.world_size = 2;
      auto store = server_.Connect(info, control_.get());
      EXPECT_TRUE(store.ok()) << store.status();
      stores_.push_back(*std::move(store));
      blocking_.emplace_back(stores_.back().get(), control_.get());
    }
  }

  MemoryStoreServer server_;
  std::unique_ptr<ControlThread> control_;
  std::vector<std::unique_ptr<MemoryStore>> stores_;
  std::vector<BlockingStore> blocking_;
};

TEST_F(BlockingStoreTest, EveryCallGivesItsAnswer) {
  BlockingStore& store = blocking_[0];
  const auto revision = store.Set("k", "v", Lifetime::kPersistent, Soon());
  ASSERT_TRUE(revision.ok()) << revision.status();
  EXPECT_EQ(store.Get("k", Soon())->value, "v");
  const auto swapped = store.CompareAndSet("k", *revision, "w", Lifetime::kSession, Soon());
  EXPECT_TRUE(swapped.ok() && swapped->swapped);
  EXPECT_TRUE(store.Delete("k", Soon()).ok());
  EXPECT_EQ(store.Get("k", Soon()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store.Gather("g", 0, 1, "alone", Soon())->values[0], "alone");
  EXPECT_TRUE(store.Leave("done", Soon()).ok());
  EXPECT_EQ(store.Get("k", Soon()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BlockingStoreTest, WaitForKeyFindsWhatIsThereAndWhatComesLaterAndNotALongerKey) {
  ASSERT_TRUE(blocking_[0].Set("k/longer", "no", Lifetime::kPersistent, Soon()).ok());
  std::thread setter(
      [&] { EXPECT_TRUE(blocking_[1].Set("k", "late", Lifetime::kPersistent, Soon()).ok()); });
  const auto late = blocking_[0].WaitForKey("k", Soon());
  setter.join();
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(late->value, "late");
  EXPECT_EQ(blocking_[0].WaitForKey("k", Soon())->value, "late");
}

TEST_F(BlockingStoreTest, WaitForKeyEndsAtItsDeadlineAndNamesTheKey) {
  const auto none = blocking_[0].WaitForKey("absent", control_->Now() + absl::Milliseconds(20));
  EXPECT_EQ(none.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("\"absent\""));
}

TEST_F(BlockingStoreTest, OnTheExecutorItSaysSoInsteadOfDeadlocking) {
  absl::Notification done;
  control_->Post([&] {
    EXPECT_EQ(blocking_[0].Get("k", Soon()).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(blocking_[0].WaitForKey("k", Soon()).status().code(),
              absl::StatusCode::kFailedPrecondition);
    done.Notify();
  });
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(store_testing::Patience()));
}

TEST_F(BlockingStoreTest, AServerThatDiesWakesWhoWaits) {
  std::thread waiter([&] {
    EXPECT_EQ(blocking_[0].WaitForKey("k", Soon()).status().code(), absl::StatusCode::kUnavailable);
  });
  server_.Stop();
  waiter.join();
}

TEST_F(BlockingStoreTest, AnExecutorThatStopsBeforeItAnswersCannotHoldACall) {
  EXPECT_TRUE(control_->Stop().ok());
  const auto answer = blocking_[0].Get("k", control_->Now() + absl::Milliseconds(10));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace muster

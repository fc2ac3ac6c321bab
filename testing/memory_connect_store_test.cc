#include "muster/testing/memory_connect_store.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/collective/backend.h"
#include "muster/core/platform/cancellation.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/platform/wall_clock_jump.h"

namespace muster::testing {
namespace {

const bool wall_clock_jumped = PutWallClockForward();

absl::Time Later() { return MonotonicNow() + TimeoutScale() * absl::Seconds(20); }

TEST(MemoryConnectStoreTest, ExchangeGivesEveryRankTheValuesInTheOrderOfRanks) {
  MemoryConnectHub hub(3);
  std::vector<absl::StatusOr<std::vector<std::string>>> results(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      std::unique_ptr<ConnectStore> store = hub.ForRank(rank, nullptr);
      results[rank] = store->Exchange("k", std::string(1, static_cast<char>('a' + rank)), Later());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, (std::vector<std::string>{"a", "b", "c"}));
  }
}

TEST(MemoryConnectStoreTest, GetWaitsForSet) {
  MemoryConnectHub hub(2);
  absl::StatusOr<std::string> result;
  std::thread reader([&] { result = hub.ForRank(1, nullptr)->Get("k", Later()); });
  EXPECT_TRUE(hub.AwaitWaiting(1, Later()));
  EXPECT_TRUE(hub.ForRank(0, nullptr)->Set("k", "v").ok());
  reader.join();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, "v");
}

TEST(MemoryConnectStoreTest, TheDeadlineNamesWhatIsMissing) {
  MemoryConnectHub hub(3);
  std::unique_ptr<ConnectStore> store = hub.ForRank(1, nullptr);
  EXPECT_EQ(store->Exchange("k", "v", MonotonicNow()).status(),
            absl::DeadlineExceededError("ranks 0, 2 did not come to \"k\""));
  EXPECT_EQ(store->Get("absent", MonotonicNow()).status(),
            absl::DeadlineExceededError("no rank has set \"absent\""));
}

TEST(MemoryConnectStoreTest, AWallClockThatWasPutForwardEndsNoWaitEarly) {
  ASSERT_TRUE(wall_clock_jumped);
  MemoryConnectHub hub(2);
  absl::Time deadline = MonotonicNow() + absl::Milliseconds(100);
  EXPECT_FALSE(hub.AwaitWaiting(1, deadline));
  EXPECT_GE(MonotonicNow(), deadline);
  deadline = MonotonicNow() + absl::Milliseconds(100);
  EXPECT_FALSE(hub.ForRank(0, nullptr)->Get("absent", deadline).ok());
  EXPECT_GE(MonotonicNow(), deadline);
}

TEST(MemoryConnectStoreTest, ACancellationEndsEveryWaitWithItsCause) {
  MemoryConnectHub hub(2);
  Cancellation cancellation;
  std::unique_ptr<ConnectStore> store = hub.ForRank(0, &cancellation);
  absl::Status result;
  std::thread waiter([&] { result = store->Exchange("k", "v", Later()).status(); });
  EXPECT_TRUE(hub.AwaitWaiting(1, Later()));
  cancellation.Cancel(absl::AbortedError("rank 1 was lost"));
  waiter.join();
  EXPECT_EQ(result, absl::AbortedError("rank 1 was lost"));
  EXPECT_EQ(store->Set("k", "v"), absl::AbortedError("rank 1 was lost"));
}

}  // namespace
}  // namespace muster::testing

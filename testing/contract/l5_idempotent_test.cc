// L5: Close and Abort from any thread, any number of times, at once: one effect, and every caller
// on a rank gets the same result. Destructors are bounded.
#include <functional>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11): absl has no thread
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/testing/multi_rank_test.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr int kThreads = 8;

// nccl#1482: an object that owns a communicator is copied, and it is destroyed twice.
static_assert(!std::is_copy_constructible_v<GroupLease> && !std::is_copy_assignable_v<GroupLease>);
static_assert(std::is_nothrow_destructible_v<GroupLease> &&
              std::is_nothrow_move_constructible_v<GroupLease>);
static_assert(std::is_nothrow_destructible_v<GroupPool>);

class IdempotentTest : public testing::MultiRankTest {
 protected:
  void SetUp() override { before_ = ProcessHoldings::Now(); }

  static std::vector<absl::Status> OnManyThreads(const std::function<absl::Status(int)>& call) {
    std::vector<absl::Status> results(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { results[i] = call(i); });
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  static absl::Status Try(GroupLease& lease) {
    float value = 1;
    return lease->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  }

  ProcessHoldings before_;
};

TEST_F(IdempotentTest, ACloseOnManyThreadsAndOfEveryRankIsOneClose) {
  ASSERT_OK(Try(lease()));
  for (const absl::Status& result : OnManyThreads([this](int) { return lease().Close(); })) {
    EXPECT_OK(result);
  }
  EXPECT_OK(lease().Close());
  EXPECT_EQ(lease()->state(), GroupState::kDestroyed);
  EXPECT_EQ(pool().statistics().groups_destroyed, 1);
}

TEST_F(IdempotentTest, AnAbortOnManyThreadsHasOneCauseOnEveryRank) {
  const absl::Status met = group().Barrier();  // all have the group, and may have lost it again
  if (rank() == 0) {
    ASSERT_OK(met);
    OnManyThreads([this](int i) {
      lease().Abort(absl::CancelledError(absl::StrCat("reason ", i)));
      return absl::OkStatus();
    });
  }
  absl::Status first;
  while (first.ok()) first = Try(lease());
  EXPECT_THAT(std::string(first.message()), HasSubstr("rank 0 left: \"reason "));
  const absl::Status closed = lease().Close();
  for (const absl::Status& result : OnManyThreads([this](int) { return lease().Close(); })) {
    EXPECT_EQ(result, closed);
  }
  lease().Abort(absl::CancelledError("another one"));
  EXPECT_EQ(lease().Close(), closed);
  EXPECT_EQ(pool().statistics().groups_aborted, 1);
}

// torchcomms#2550, slime#909: two owners end one communicator; what is gone is cleaned up again.
TEST_F(IdempotentTest, TheLeaseItsCopyOfTheGroupAndThePoolMayAllEndIt) {
  absl::StatusOr<std::unique_ptr<GroupPool>> mine = GroupPool::FromEnvironment(pool_options());
  ASSERT_OK(mine);
  absl::StatusOr<GroupLease> one = (*mine)->Acquire(spec());
  ASSERT_OK(one);
  absl::StatusOr<GroupLease> two = (*mine)->Acquire(spec());
  ASSERT_OK(two);
  ASSERT_OK((*one)->Barrier());  // nobody ends it before all have both
  two->Release();
  two->Release();
  EXPECT_OK(one->Close());
  one->Abort(absl::CancelledError("it is gone already"));
  EXPECT_OK(one->Close());
  const absl::Duration bound = Scaled(absl::Seconds(5));
  for (const absl::Status& result : OnManyThreads([&](int) { return (*mine)->Close(bound); })) {
    EXPECT_OK(result);
  }
  (*mine)->Abort(absl::CancelledError("so is its pool"));
  EXPECT_OK((*mine)->Close(bound));
  EXPECT_EQ((*mine)->statistics().groups_destroyed, 1);
  EXPECT_EQ((*mine)->statistics().groups_aborted, 0);
  mine->reset();
  *one = GroupLease();
  EXPECT_EQ(ProcessHoldings::Beyond(before_, Scaled(absl::Seconds(2))).ToString(), "nothing");
}

// The peers are still there, with work in flight that cannot end.
TEST_F(IdempotentTest, TheDestructorsOfOneRankAreBounded) {
  absl::StatusOr<std::unique_ptr<GroupPool>> mine = GroupPool::FromEnvironment(pool_options());
  ASSERT_OK(mine);
  absl::StatusOr<GroupLease> one = (*mine)->Acquire(spec());
  ASSERT_OK(one);
  if (rank() != 0) {
    EXPECT_THAT(std::string(Try(*one).message()), HasSubstr("rank 0 "));
    return;
  }
  const absl::Time begin = MonotonicNow();
  mine->reset();  // while the lease is out
  *one = GroupLease();
  EXPECT_LE(MonotonicNow() - begin, spec().cause_window + 2 * pool_options().close_timeout);
}

}  // namespace
}  // namespace muster

// L3: after a close began every operation is refused at once, with the group, its state and who
// closed it; and when an operation has returned, nothing touches its buffers.
#include <algorithm>
#include <string>
#include <thread>  // NOLINT(build/c++11): yield
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/testing/multi_rank_test.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;

class RefusalTest : public testing::MultiRankTest {
 protected:
  static absl::Status Try(GroupLease& lease) {
    float value = 1;
    return lease->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  }
};

// PT#107298: a group that was destroyed still communicates. HVD#532: operations after the shutdown
// hang. transformers#48874: destroyed too early, and what comes then breaks without a reason.
TEST_F(RefusalTest, AnOperationOfADestroyedGroupSaysWhichGroupItsStateAndWhoClosedIt) {
  ASSERT_OK(Try(lease()));
  if (rank() == 0) {
    ASSERT_OK(lease().Close());
  } else {
    // Rank 0 brings it about, and has no group any more to say so.
    while (lease()->state() != GroupState::kDestroyed) std::this_thread::yield();
  }
  const absl::Status refused = Try(lease());
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(spec().name + "/1"), HasSubstr("closed"), HasSubstr("rank 0")));
  EXPECT_EQ(Try(lease()), refused) << "the same, however often";
  EXPECT_EQ(lease()->BarrierAsync().Wait().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RefusalTest, WorkBeyondTheCloseIsRefusedWhileWorkBeforeItFinishes) {
  ASSERT_OK(Try(lease()));
  if (rank() == 0) {
    std::vector<float> values(1 << 20, 1);
    Work before = lease()->AllReduceAsync(Buffer::Of(absl::MakeSpan(values)), ReduceOp::kSum);
    EXPECT_OK(lease().Close());
    EXPECT_OK(before.Wait());
    EXPECT_THAT(values, Each(static_cast<float>(world_size())));
    return;
  }
  std::vector<float> values(1 << 20, 1);
  ASSERT_OK(lease()->AllReduce(Buffer::Of(absl::MakeSpan(values)), ReduceOp::kSum));
  EXPECT_THAT(values, Each(static_cast<float>(world_size())));
  const absl::Status beyond = Try(lease());
  EXPECT_EQ(beyond.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(beyond.message()), ContainsRegex("rank 0 closed after #2"));
}

// The peers go on with a group of their own; what they send must not come here.
TEST_F(RefusalTest, NothingTouchesTheBuffersOfAnAbortedOperation) {
  const absl::Status met = group().Barrier();  // all have the group, and may have lost it again
  if (rank() == 0) {
    ASSERT_OK(met);
  }
  std::vector<float> values(1 << 20, 1);
  Work work = group().AllReduceAsync(Buffer::Of(absl::MakeSpan(values)), ReduceOp::kSum);
  if (rank() == 0) lease().Abort(absl::CancelledError("enough"));
  static_cast<void>(work.Wait());  // the peers may have been quicker than the abort
  std::fill(values.begin(), values.end(), -7.0F);
  GroupSpec other = spec();
  other.name += "-next";
  absl::StatusOr<GroupLease> next = pool().Acquire(other);
  ASSERT_OK(next);
  for (int i = 0; i < 20; ++i) {
    std::vector<float> others(1 << 16, 3);
    ASSERT_OK((*next)->AllReduce(Buffer::Of(absl::MakeSpan(others)), ReduceOp::kSum));
  }
  EXPECT_OK(next->Close());
  EXPECT_THAT(values, Each(-7.0F));
}

}  // namespace
}  // namespace muster

// Groups over some ranks of a job and groups that are split from one, on real processes: side by
// side, in any order of their ends, each failure where it belongs, and ranks that wait for each
// other told so at once.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/split_mix64.h"
#include "muster/testing/multi_rank_test.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class SubgroupsTest : public testing::MultiRankTest {
 protected:
  GroupSpec Over(const std::string& name, std::vector<int> members = {}) const {
    GroupSpec part = spec();
    part.name = name;
    part.members = std::move(members);
    return part;
  }

  static float Sum(GroupLease& lease, float value) {
    EXPECT_OK(lease->AllReduce(Buffer::Of(value), ReduceOp::kSum));
    return value;
  }
  static absl::Status Try(GroupLease& lease) {
    float value = 1;
    return lease->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  }
  static std::string Message(const absl::Status& status) { return std::string(status.message()); }

  // The leases in an order of this rank's own.
  void Shuffle(std::vector<GroupLease>& leases) const {
    SplitMix64 random(static_cast<uint64_t>(rank()));
    for (size_t i = leases.size(); i > 1; --i) {
      std::swap(leases[i - 1], leases[random.Below(i)]);
    }
  }

  int half() const { return rank() % 2; }
  // Ranks 0, 2 or 1, 3.
  std::vector<int> MyHalf() const { return {half(), half() + 2}; }
};

TEST_F(SubgroupsTest, TwoGroupsOfTwoWorkSideBySideAndInsideOneOfFour) {
  GroupPool& pool = this->pool();
  absl::StatusOr<GroupLease> all = pool.Acquire(Over("all"));
  ASSERT_OK(all);
  absl::StatusOr<GroupLease> part = pool.Acquire(Over("part", MyHalf()));
  ASSERT_OK(part);
  EXPECT_EQ((*part)->size(), 2);
  EXPECT_EQ((*part)->rank(), rank() / 2);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Sum(*part, static_cast<float>(rank())), half() == 0 ? 2 : 4);
    EXPECT_EQ(Sum(*all, static_cast<float>(rank())), 6);
  }
  EXPECT_OK(part->Close());
  EXPECT_EQ(Sum(*all, 1), 4);
  EXPECT_OK(all->Close());
}

TEST_F(SubgroupsTest, SplitOrdersByKeyAndThenByRankAndLeavesOutWhoHasNoColor) {
  const int color = rank() == 1 ? Group::kNoColor : 0;
  const int key = rank() == 3 ? -1 : 0;
  absl::StatusOr<GroupLease> child = group().Split(color, key);
  ASSERT_OK(child);
  if (rank() == 1) {
    EXPECT_TRUE(child->empty());
    return;
  }
  EXPECT_EQ((*child)->size(), 3);
  EXPECT_EQ((*child)->backend(), backend());
  // Ranks 3, 0, 2 in this order.
  std::vector<float> gathered(3);
  const std::vector<float> own = {static_cast<float>(rank())};
  EXPECT_OK((*child)->AllGather(ConstBuffer::Of(absl::MakeConstSpan(own)),
                                Buffer::Of(absl::MakeSpan(gathered))));
  EXPECT_EQ(gathered, (std::vector<float>{3, 0, 2}));
  EXPECT_OK(child->Close());
}

TEST_F(SubgroupsTest, TwentyGroupsAtOnceEndInAnotherOrderOnEachRankAndNothingIsLeft) {
  GroupPool& pool = this->pool();
  EXPECT_OK(group().Barrier());
  const ProcessHoldings before = ProcessHoldings::Now();
  std::vector<GroupLease> leases;
  for (int i = 0; i < 10; ++i) {
    const std::vector<int> members = {i % 4, (i + 1) % 4, (i + 2) % 4};
    if (std::count(members.begin(), members.end(), rank()) != 0) {
      absl::StatusOr<GroupLease> part = pool.Acquire(Over(absl::StrCat("part", i), members));
      ASSERT_OK(part);
      leases.push_back(*std::move(part));
    }
    absl::StatusOr<GroupLease> child = group().Split((rank() + i) % 3, -rank());
    ASSERT_OK(child);
    leases.push_back(*std::move(child));
  }
  Shuffle(leases);
  for (GroupLease& lease : leases) EXPECT_OK(lease.Close());
  EXPECT_EQ(ProcessHoldings::Beyond(before, Scaled(absl::Seconds(2))).ToString(), "nothing");
  EXPECT_OK(group().Barrier());
}

TEST_F(SubgroupsTest, AFailureInOneChildNamesItsRankThereAndTheOtherGoesOn) {
  absl::StatusOr<GroupLease> child = group().Split(half(), 0);
  ASSERT_OK(child);
  EXPECT_OK(group().Barrier());  // else it may be rank 1's Split that fails of it
  if (rank() == 3) child->Abort(absl::DataLossError("label 17 out of range"));
  if (half() == 1) {
    EXPECT_THAT(Message(Try(*child)), HasSubstr("rank 3 left: \"label 17 out of range\""));
  } else {
    for (int i = 0; i < 50; ++i) EXPECT_EQ(Sum(*child, 1), 2);
  }
  EXPECT_OK(group().Barrier());
}

TEST_F(SubgroupsTest, CloseWithChildrenEndsThemOnEveryRank) {
  absl::StatusOr<GroupLease> child = group().Split(half(), 0);
  ASSERT_OK(child);
  EXPECT_OK(group().Barrier());
  const absl::Status refused = lease().Close();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refused), HasSubstr((*child)->id()));
  EXPECT_OK(group().Barrier());
  EXPECT_OK(lease().CloseWithChildren());
  EXPECT_EQ(Try(*child).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SubgroupsTest, RanksThatAcquireInDifferentOrdersAreToldWhoWaitsForWhomAtOnce) {
  GroupPool& pool = this->pool();
  for (const int ranks : {2, 3}) {
    EXPECT_OK(group().Barrier());
    const absl::Time began = MonotonicNow();
    if (rank() < ranks) {
      // Rank r begins with what rank r + 1 comes to last.
      GroupSpec first = Over(absl::StrCat("of", rank()), {rank(), (rank() + 1) % ranks});
      first.setup_timeout = absl::Hours(1);
      const absl::Status result = pool.Acquire(first).status();
      EXPECT_EQ(result.code(), absl::StatusCode::kFailedPrecondition) << result;
      for (int other = 0; other < ranks; ++other) {
        EXPECT_THAT(Message(result),
                    HasSubstr(absl::StrCat("rank ", other, " in 'of", other, "' of ranks ")));
      }
      EXPECT_LT(MonotonicNow() - began, Scaled(absl::Seconds(5)));
    }
    EXPECT_OK(group().Barrier());
  }
}

}  // namespace
}  // namespace muster

// Conformance of every Store: Gather.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/store_conformance.h"
#include "muster/core/store/store_test_util.h"

namespace muster::store_testing {
namespace {

using ::testing::HasSubstr;

TEST_P(StoreConformanceTest, AGatherGivesEveryRankAllValuesInOrderAndOneRevision) {
  auto stores = ConnectAll();
  Revision last = 0;
  for (int round = 0; round < 3; ++round) {  // the key is free again at once
    std::vector<PromisedOr<GatherResult>> gathers;
    for (int rank = kWorldSize - 1; rank >= 0; --rank) {
      gathers.push_back(StartGather(*stores[rank], "g", rank, kWorldSize,
                                    absl::StrCat("value ", rank, " of round ", round)));
    }
    const auto first = gathers[0].Get();
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_GT(first->revision, last);
    last = first->revision;
    for (const auto& gather : gathers) {
      const auto result = gather.Get();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->revision, last);
      ASSERT_EQ(result->values.size(), static_cast<size_t>(kWorldSize));
      for (int rank = 0; rank < kWorldSize; ++rank) {
        EXPECT_EQ(result->values[rank], absl::StrCat("value ", rank, " of round ", round));
      }
    }
  }
}

TEST_P(StoreConformanceTest, AGatherThatTimesOutFailsForAllWithTheMissingRanksByNumber) {
  auto stores = ConnectAll();
  auto waits_long = StartGather(*stores[0], "g", 0, 4, "");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  auto waits_short =
      StartGather(*stores[1], "g", 1, 4, "", MonotonicNow() + absl::Milliseconds(50));
  for (const auto& gather : {waits_long, waits_short}) {
    const auto result = gather.Get();
    EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("ranks 2, 3 of 4 did not come"));
  }
  // The late ones begin a round of their own, with the others.
  std::vector<PromisedOr<GatherResult>> gathers;
  for (int rank = 0; rank < 4; ++rank) {
    gathers.push_back(StartGather(*stores[rank], "g", rank, 4, absl::StrCat(rank)));
  }
  for (const auto& gather : gathers) EXPECT_TRUE(gather.Get().ok());
}

TEST_P(StoreConformanceTest, AGatherFailsForAllWhenAContributorIsLostOrLeaves) {
  auto stores = ConnectAll();
  auto gather = StartGather(*stores[0], "g", 0, 3, "");
  auto of_lost = StartGather(*stores[1], "g", 1, 3, "");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  ASSERT_TRUE(Get(*stores[1], SessionKey(1)).ok());
  harness_->DeclareLost(1, "killed by signal 9");
  EXPECT_EQ(gather.Get().status(),
            absl::AbortedError("rank 1 (host a, pid 101) was lost: killed by signal 9"));
  EXPECT_FALSE(of_lost.Get().ok());

  // Ranks 2 and 3 of the world are ranks 0 and 1 of this gather.
  gather = StartGather(*stores[3], "g", 1, 2, "");
  ASSERT_TRUE(Get(*stores[3], SessionKey(3)).ok());
  EXPECT_TRUE(Leave(*stores[3], "label 17 out of range").ok());
  EXPECT_FALSE(gather.Get().ok());
  gather = StartGather(*stores[2], "h", 0, 3, "");
  auto other = StartGather(*stores[0], "h", 2, 3, "");
  ASSERT_TRUE(Get(*stores[2], SessionKey(2)).ok());
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  harness_->Kill(2);
  const auto failed = other.Get();
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(failed.status().message()),
              HasSubstr("rank 2 (host a, pid 102) was lost: its connection"));
}

TEST_P(StoreConformanceTest, AGatherOfOtherSizesFailsForAllWithBothSizes) {
  auto stores = ConnectAll(2);
  auto first = StartGather(*stores[0], "g", 0, 2, "");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  auto second = StartGather(*stores[1], "g", 1, 3, "");
  const auto status = first.Get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 (host a, pid 100) waits for 2"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (host a, pid 101) for 3"));
  EXPECT_EQ(second.Get().status(), status);
}

TEST_P(StoreConformanceTest, ADuplicateRankInAGatherIsRefusedAndTheFirstGoesOn) {
  auto stores = ConnectAll(2);
  auto first = StartGather(*stores[0], "g", 0, 2, "first");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  const auto duplicate = StartGather(*stores[1], "g", 0, 2, "second").Get();
  EXPECT_EQ(duplicate.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(duplicate.status().message()),
              HasSubstr("duplicate rank 0: host a, pid 100 and host a, pid 101"));
  auto second = StartGather(*stores[1], "g", 1, 2, "third");
  const auto result = first.Get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->values, (std::vector<std::string>{"first", "third"}));
  EXPECT_TRUE(second.Get().ok());
}

TEST_P(StoreConformanceTest, AGatherOfARankOrSizeThatCannotBeIsRefused) {
  auto store = Connect(0);
  const std::vector<std::pair<int, int>> impossible = {{0, 0}, {-1, 2}, {2, 2}, {0, 5}, {0, -1}};
  for (const auto& [rank, size] : impossible) {
    EXPECT_EQ(StartGather(*store, "g", rank, size, "").Get().status().code(),
              absl::StatusCode::kInvalidArgument)
        << rank << " of " << size;
  }
  EXPECT_TRUE(StartGather(*store, "g", 0, 1, "alone").Get().ok());
}

TEST_P(StoreConformanceTest, AWithdrawnContributionFailsTheRoundForAllWithTheReason) {
  auto stores = ConnectAll(3);
  stores[0]->Withdraw("g", 0, "nothing waits");
  auto first = StartGather(*stores[0], "g", 0, 3, "");
  auto second = StartGather(*stores[1], "g", 1, 3, "");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  ASSERT_TRUE(Get(*stores[1], SessionKey(1)).ok());
  stores[0]->Withdraw("g", 1, "of somebody else");
  stores[0]->Withdraw("h", 0, "of another key");
  stores[1]->Withdraw("g", 1, "set-up failed");
  EXPECT_EQ(first.Get().status(), absl::AbortedError("rank 1 withdrew: set-up failed"));
  EXPECT_EQ(second.Get().status(), absl::AbortedError("rank 1 withdrew: set-up failed"));
}

TEST_P(StoreConformanceTest, AReasonOfAnyLengthIsToldNotTheEndOfTheSession) {
  auto stores = ConnectAll(3);
  auto gather = StartGather(*stores[0], "g", 0, 3, "");
  auto withdrawn = StartGather(*stores[1], "g", 1, 3, "");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());  // so the first contribution is there
  stores[1]->Withdraw("g", 1, std::string(2 * Store::kMaxValueBytes, 'x'));
  EXPECT_THAT(std::string(gather.Get().status().message()),
              ::testing::StartsWith("rank 1 withdrew: xxx"));
  EXPECT_TRUE(Get(*stores[1], SessionKey(1)).ok());
}

MUSTER_INSTANTIATE_FOR_ALL_STORES();

}  // namespace
}  // namespace muster::store_testing

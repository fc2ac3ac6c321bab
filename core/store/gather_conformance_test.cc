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

TEST_P(StoreConformanceTest, AGatherAmongSomeRanksSpeaksOfThemByTheirNumbersInTheJob) {
  auto stores = ConnectAll();
  const std::vector<int> members = {3, 1};
  auto first = StartGatherAmong(*stores[3], "g", {0, 2, members, ""}, "of rank 3");
  auto second = StartGatherAmong(*stores[1], "g", {1, 2, members, ""}, "of rank 1");
  for (const auto& gather : {first, second}) {
    const auto result = gather.Get();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->values, (std::vector<std::string>{"of rank 3", "of rank 1"}));
  }

  const auto late = StartGatherAmong(*stores[1], "g", {1, 2, members, ""}, "",
                                     MonotonicNow() + absl::Milliseconds(10))
                        .Get();
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.status().message()),
              HasSubstr("rank 3 of ranks 1, 3 did not come to gather \"g\" in time"));

  auto waits = StartGatherAmong(*stores[1], "g", {1, 2, members, ""});
  ASSERT_TRUE(Get(*stores[1], SessionKey(1)).ok());
  auto differs = StartGatherAmong(*stores[3], "g", {0, 3, {3, 1, 2}, ""});
  for (const auto& gather : {waits, differs}) {
    const auto result = gather.Get();
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.status().message()),
                HasSubstr(") waits for ranks 1, 3, rank 3"));
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(") for ranks 1, 2, 3"));
  }

  auto withdrawn = StartGatherAmong(*stores[3], "g", {0, 2, members, ""});
  stores[3]->Withdraw("g", 0, "enough");
  EXPECT_EQ(withdrawn.Get().status().message(), "rank 3 withdrew: enough");
}

TEST_P(StoreConformanceTest, AGatherAmongImpossibleRanksIsRefused) {
  auto stores = ConnectAll();
  for (const std::vector<int>& members :
       std::vector<std::vector<int>>{{0}, {0, 0}, {0, kWorldSize}, {0, -1}, {1, 0}}) {
    const auto result = StartGatherAmong(*stores[0], "g", {0, 2, members, ""}).Get();
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
  }
}

TEST_P(StoreConformanceTest, RanksThatWaitForEachOtherAreToldWhoWaitsForWhomInWhat) {
  auto stores = ConnectAll();
  const absl::Time began = MonotonicNow();
  const absl::Time never = began + absl::Hours(1);
  // Rank 3 is in no cycle, and waits in vain all the same.
  std::vector<PromisedOr<GatherResult>> gathers = {
      StartGatherAmong(*stores[3], "a", {2, 3, {0, 1, 3}, "'a'"}, "", never),
      StartGatherAmong(*stores[0], "a", {0, 3, {0, 1, 3}, "'a'"}, "", never),
      StartGatherAmong(*stores[1], "b", {0, 2, {1, 2}, "'b'"}, "", never),
      StartGatherAmong(*stores[2], "c", {1, 2, {0, 2}, "'c'"}, "", never)};
  for (const auto& gather : gathers) {
    const auto result = gather.Get();
    EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition) << result.status();
    EXPECT_EQ(result.status().message(),
              "ranks 0, 1, 2 wait for each other: rank 0 in 'a' for rank 1, rank 1 in 'b' for rank "
              "2, rank 2 in 'c' for rank 0; make the same groups in the same order on every rank");
  }
  EXPECT_GE(MonotonicNow() - began, Store::kCycleGrace);
  // Nothing stays of it.
  std::vector<PromisedOr<GatherResult>> again = {
      StartGatherAmong(*stores[0], "a", {0, 2, {0, 1}, "'a'"}),
      StartGatherAmong(*stores[1], "a", {1, 2, {0, 1}, "'a'"})};
  for (const auto& gather : again) EXPECT_TRUE(gather.Get().ok());
}

TEST_P(StoreConformanceTest, RanksThatCanComeToSeveralGathersAreInNoCycle) {
  auto stores = ConnectAll();
  const absl::Time deadline = MonotonicNow() + 2 * Store::kCycleGrace;
  // Rank 1 says nothing of what it waits in; rank 3 is in two at once, so it has two threads.
  std::vector<PromisedOr<GatherResult>> gathers = {
      StartGatherAmong(*stores[0], "a", {0, 2, {0, 1}, "'a'"}, "", deadline),
      StartGatherAmong(*stores[1], "b", {1, 2, {0, 1}, ""}, "", deadline),
      StartGatherAmong(*stores[2], "c", {0, 2, {2, 3}, "'c'"}, "", deadline),
      StartGatherAmong(*stores[3], "d", {1, 2, {2, 3}, "'d'"}, "", deadline),
      StartGatherAmong(*stores[3], "e", {0, 2, {3, 2}, "'e'"}, "", deadline)};
  for (const auto& gather : gathers) {
    EXPECT_EQ(gather.Get().status().code(), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_P(StoreConformanceTest, ACycleThatResolvesItselfInTimeIsNone) {
  auto stores = ConnectAll();
  std::vector<PromisedOr<GatherResult>> gathers = {
      StartGatherAmong(*stores[0], "a", {0, 2, {0, 1}, "'a'"}),
      StartGatherAmong(*stores[1], "b", {1, 2, {0, 1}, "'b'"}),
      // From another thread of each.
      StartGatherAmong(*stores[0], "b", {0, 2, {0, 1}, "'b'"}),
      StartGatherAmong(*stores[1], "a", {1, 2, {0, 1}, "'a'"})};
  for (const auto& gather : gathers) EXPECT_TRUE(gather.Get().ok()) << gather.Get().status();
}

}  // namespace
}  // namespace muster::store_testing

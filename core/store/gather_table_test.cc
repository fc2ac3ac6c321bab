#include "muster/core/store/gather_table.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/store/store.h"

namespace muster::store_internal {
namespace {

using ::testing::HasSubstr;

// The limits alone: what rounds do is in gather_conformance_test.cc and store_engine_test.cc.
class GatherTableTest : public ::testing::Test {
 protected:
  absl::Status Join(GatherTable::Session session, const std::string& key, int rank,
                    size_t bytes = 0) {
    GatherTable::Contribution contribution;
    contribution.waiter = {session, 1};
    contribution.rank = rank;
    contribution.size = 2;
    contribution.value = std::string(bytes, 'x');
    contribution.deadline = absl::InfiniteFuture();
    return table_.Join(key, contribution, [] { return Revision{1}; }, Ignore);
  }

  static void Ignore(const GatherTable::Waiter&, const absl::Status&, const GatherTable::Result&) {}

  static GatherTable::Limits Limits() {
    GatherTable::Limits limits;
    limits.per_session = 2;
    limits.bytes = 20;
    return limits;
  }

  GatherTable table_{Limits()};
};

TEST_F(GatherTableTest, RoundsThatAreOverCountForNoLimit) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(Join(1, "complete", 0, 10).ok()) << i;
    EXPECT_TRUE(Join(2, "complete", 1, 10).ok()) << i;
    EXPECT_TRUE(Join(1, "withdrawn", 0, 20).ok()) << i;
    table_.Withdraw(1, "withdrawn", 0, "enough", Ignore);
    EXPECT_TRUE(Join(1, "lost", 0, 20).ok()) << i;
    table_.FailRoundsOf(1, [](int) { return absl::AbortedError("lost"); }, Ignore);
  }
  EXPECT_EQ(table_.waiting_rounds(), 0u);
}

TEST_F(GatherTableTest, ASessionThatWaitsForAsManyAsItMayIsToldAndOthersAreNot) {
  EXPECT_TRUE(Join(1, "a", 0).ok());
  EXPECT_TRUE(Join(1, "b", 0).ok());
  const absl::Status full = Join(1, "c", 0);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("gather \"c\": this session waits for 2 gathers already, which is its "
                        "limit: wait for some of them"));
  EXPECT_TRUE(Join(2, "c", 0).ok());
  EXPECT_TRUE(Join(2, "a", 1).ok());
  EXPECT_TRUE(Join(1, "c", 1).ok()) << "one of its own is through";
}

TEST_F(GatherTableTest, WhatAllRoundsHoldTogetherIsBounded) {
  EXPECT_TRUE(Join(1, "a", 0, 10).ok());
  EXPECT_TRUE(Join(2, "b", 0, 10).ok());
  const absl::Status full = Join(3, "c", 0, 1);
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("the values of all gathers that wait would be 21 bytes, the limit is 20"));
  EXPECT_TRUE(Join(3, "c", 0, 0).ok());
}

TEST(GatherTableShareTest, OneSessionCannotTakeWhatAllTheOthersNeed) {
  GatherTable::Limits limits;
  limits.bytes = 40;
  limits.bytes_per_session = 10;
  GatherTable table(limits);
  const auto join = [&](GatherTable::Session session, const std::string& key, int rank,
                        size_t bytes) {
    GatherTable::Contribution contribution;
    contribution.waiter = {session, 1};
    contribution.rank = rank;
    contribution.size = 2;
    contribution.value = std::string(bytes, 'x');
    contribution.deadline = absl::InfiniteFuture();
    return table.Join(
        key, contribution, [] { return Revision{1}; },
        [](const GatherTable::Waiter&, const absl::Status&, const GatherTable::Result&) {});
  };
  EXPECT_TRUE(join(1, "a", 0, 6).ok());
  EXPECT_TRUE(join(1, "b", 0, 4).ok());
  EXPECT_EQ(join(1, "c", 0, 1),
            absl::ResourceExhaustedError(
                "gather \"c\": the values of the gathers that this session waits for would be 11 "
                "bytes, its limit is 10: gather less at a time"));
  EXPECT_TRUE(join(2, "c", 0, 10).ok());
  EXPECT_TRUE(join(3, "c", 1, 10).ok());
  EXPECT_TRUE(join(2, "a", 1, 1).ok());
  EXPECT_TRUE(join(1, "c", 0, 6).ok()) << "one of its own is through";
}

}  // namespace
}  // namespace muster::store_internal

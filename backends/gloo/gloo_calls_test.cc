#include "muster/backends/gloo/gloo_calls.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"

namespace muster {
namespace {

using Kind = GlooCall::Kind;

GlooCall Call(Kind kind, int root = -1, int64_t count = 4) {
  return {kind, DataType::kF32, ReduceOp::kSum, root, count};
}

void Tell(const GlooCalls& from, int rank, GlooCalls& to, int to_rank) {
  for (const auto& [peer, note] : from.ToTell()) {
    if (peer == to_rank) to.Heard(rank, note);
  }
}

class GlooCallsTest : public ::testing::Test {
 protected:
  // Both tell what they do; what each says then.
  absl::Status VerdictOfZero() {
    Tell(one_, 1, zero_, 0);
    return zero_.Verdict();
  }
  absl::Status VerdictOfOne() {
    Tell(zero_, 0, one_, 1);
    return one_.Verdict();
  }
  void ExpectNothing() {
    EXPECT_EQ(VerdictOfZero(), absl::OkStatus());
    EXPECT_EQ(VerdictOfOne(), absl::OkStatus());
  }
  void ExpectBothSay(const std::string& what) {
    EXPECT_EQ(VerdictOfZero(), absl::FailedPreconditionError(what));
    EXPECT_EQ(VerdictOfOne(), absl::FailedPreconditionError(what));
  }

  GlooCalls zero_{0, 3};
  GlooCalls one_{1, 3};
};

TEST_F(GlooCallsTest, EqualCallsHaveOneTagAndAllOthersAnother) {
  EXPECT_EQ(zero_.Begin(Call(Kind::kAllReduce)), one_.Begin(Call(Kind::kAllReduce)));
  EXPECT_EQ(zero_.Slot(16), one_.Slot(16));
  ExpectNothing();
  std::set<uint32_t> tags;
  size_t calls = 0;
  for (Kind kind : {Kind::kBarrier, Kind::kAllReduce, Kind::kBroadcast, Kind::kReduce}) {
    for (DataType dtype : kAllDataTypes) {
      for (ReduceOp op : kAllReduceOps) {
        for (int root : {-1, 0, 1, 1000}) {
          for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{256}, int64_t{1} << 40}) {
            GlooCalls fresh(0, 2);
            tags.insert(fresh.Begin({kind, dtype, op, root, count}));
            ++calls;
          }
        }
      }
    }
  }
  EXPECT_EQ(tags.size(), calls);
}

TEST_F(GlooCallsTest, TheSameCallLaterHasAnotherTag) {
  const uint32_t first = zero_.Begin(Call(Kind::kAllReduce));
  EXPECT_NE(zero_.Begin(Call(Kind::kAllReduce)), first);
}

TEST_F(GlooCallsTest, DifferentCollectivesAreToldOnBothRanksInOneWay) {
  zero_.Begin(Call(Kind::kAllReduce));
  one_.Begin(Call(Kind::kBroadcast, 1));
  ExpectBothSay(
      "the ranks called different operations: rank 0 all_reduce of f32[4] by sum, rank 1 broadcast "
      "of f32[4] from rank 1");
}

TEST_F(GlooCallsTest, ARankThatIsAheadIsCompared) {
  zero_.Begin(Call(Kind::kGather, 2));
  one_.Begin(Call(Kind::kGather, 0));
  one_.Begin(Call(Kind::kBarrier));  // it was rank 0's turn, and did not need it
  Tell(zero_, 0, one_, 1);
  EXPECT_EQ(one_.Verdict(),
            absl::FailedPreconditionError("the ranks called different operations: rank 0 gather of "
                                          "f32[4] to rank 2, rank 1 gather of f32[4] to rank 0"));
}

TEST_F(GlooCallsTest, NoCollectiveIsJudgedBeforeItBegins) {
  one_.Begin(Call(Kind::kBarrier));
  EXPECT_EQ(VerdictOfZero(), absl::OkStatus());
  zero_.Begin(Call(Kind::kBarrier));
  EXPECT_EQ(zero_.Verdict(), absl::OkStatus());
}

TEST_F(GlooCallsTest, CountsOfAllToAllVMustFitPerPair) {
  const std::vector<int64_t> to_one = {0, 8, 1};
  const std::vector<int64_t> from_one = {0, 2, 1};
  const std::vector<int64_t> to_zero = {2, 0, 5};
  const std::vector<int64_t> fits = {8, 0, 7};
  zero_.BeginAllToAllV(DataType::kF32, to_one, from_one);
  one_.BeginAllToAllV(DataType::kF32, to_zero, fits);
  ExpectNothing();
  const std::vector<int64_t> short_of = {4, 0, 7};
  zero_.BeginAllToAllV(DataType::kF32, to_one, from_one);
  one_.BeginAllToAllV(DataType::kF32, to_zero, short_of);
  ExpectBothSay(
      "the ranks called different operations: rank 0 all_to_all_v of f32 (8 to rank 1, 2 from it), "
      "rank 1 all_to_all_v of f32 (2 to rank 0, 4 from it)");
}

TEST_F(GlooCallsTest, ASendMeetsAReceiveOfItsTypeAndCountInOrder) {
  zero_.BeginTransfer();
  one_.BeginTransfer();
  EXPECT_EQ(zero_.Step(Kind::kSend, 1, DataType::kF32, 4),
            one_.Step(Kind::kReceive, 0, DataType::kF32, 4));
  EXPECT_EQ(zero_.Step(Kind::kReceive, 1, DataType::kI8, 9),
            one_.Step(Kind::kSend, 0, DataType::kI8, 9));
  ExpectNothing();
  EXPECT_NE(zero_.Step(Kind::kSend, 1, DataType::kF32, 4),
            one_.Step(Kind::kReceive, 0, DataType::kI32, 4));
  ExpectBothSay(
      "the ranks called different operations: rank 0 send of f32[4] to rank 1, rank 1 receive of "
      "i32[4] from rank 0");
}

TEST_F(GlooCallsTest, AStepThatIsOverIsNoMisfit) {
  zero_.BeginTransfer();
  one_.BeginTransfer();
  zero_.Step(Kind::kSend, 1, DataType::kF32, 4);
  one_.Step(Kind::kReceive, 0, DataType::kF32, 4);
  Tell(zero_, 0, one_, 1);
  one_.Begin(Call(Kind::kAllReduce));  // rank 0 is late for it
  EXPECT_EQ(one_.Verdict(), absl::OkStatus());
}

TEST_F(GlooCallsTest, ASendThatWaitsForARankInACollectiveOfAllIsAMisfit) {
  zero_.BeginTransfer();
  zero_.Step(Kind::kSend, 1, DataType::kF32, 4);
  one_.Begin(Call(Kind::kAllReduce));
  EXPECT_EQ(VerdictOfOne(),
            absl::FailedPreconditionError("the ranks called different operations: rank 0 send of "
                                          "f32[4] to rank 1, rank 1 all_reduce of f32[4] by sum"));
}

// Rank 1 may leave a broadcast from rank 2 without rank 0, and receive then.
TEST_F(GlooCallsTest, ASendThatWaitsForARankInAnotherCollectiveIsNone) {
  zero_.BeginTransfer();
  zero_.Step(Kind::kSend, 1, DataType::kF32, 4);
  one_.Begin(Call(Kind::kBroadcast, 2));
  EXPECT_EQ(VerdictOfOne(), absl::OkStatus());
}

// Later notes of the peer take the place of the one that told.
TEST_F(GlooCallsTest, TheFirstVerdictStays) {
  one_.Begin(Call(Kind::kBarrier));
  zero_.Begin(Call(Kind::kAllReduce));
  const absl::Status first = VerdictOfOne();
  EXPECT_TRUE(absl::IsFailedPrecondition(first)) << first;
  zero_.Begin(Call(Kind::kAllReduce));
  EXPECT_EQ(VerdictOfOne(), first);
}

TEST_F(GlooCallsTest, ANoteIsPendingUntilItHasBeenCompared) {
  zero_.Begin(Call(Kind::kBroadcast, 0));
  zero_.Begin(Call(Kind::kBarrier));
  one_.Begin(Call(Kind::kBroadcast, 0));
  EXPECT_FALSE(one_.pending());
  EXPECT_FALSE(one_.IsBehind());
  EXPECT_EQ(VerdictOfOne(), absl::OkStatus());  // rank 0 is ahead
  EXPECT_TRUE(one_.pending());
  EXPECT_TRUE(one_.IsBehind());
  one_.Begin(Call(Kind::kBarrier));
  EXPECT_TRUE(one_.pending());
  EXPECT_FALSE(one_.IsBehind());
  EXPECT_EQ(one_.Verdict(), absl::OkStatus());
  EXPECT_FALSE(one_.pending());
}

TEST_F(GlooCallsTest, AStepOfAPeerIsPendingUntilItIsOver) {
  zero_.BeginTransfer();
  zero_.Step(Kind::kSend, 1, DataType::kF32, 4);
  EXPECT_EQ(VerdictOfOne(), absl::OkStatus());
  EXPECT_TRUE(one_.pending());
  one_.BeginTransfer();
  one_.Step(Kind::kReceive, 0, DataType::kF32, 4);
  EXPECT_EQ(one_.Verdict(), absl::OkStatus());
  EXPECT_TRUE(one_.pending());
  one_.BeginTransfer();
  EXPECT_EQ(one_.Verdict(), absl::OkStatus());
  EXPECT_FALSE(one_.pending());
}

TEST_F(GlooCallsTest, WhatIsNoCallIsNotHeard) {
  zero_.Begin(Call(Kind::kBarrier));
  for (uint64_t first : {uint64_t{0xff}, uint64_t{0xff} << 8, uint64_t{0xff} << 16}) {
    zero_.Heard(1, {first, 1, 0, 0});
  }
  zero_.Heard(1, {0, ~uint64_t{0}, 0, 0});
  EXPECT_FALSE(zero_.pending());
  EXPECT_EQ(zero_.Verdict(), absl::OkStatus());
}

}  // namespace
}  // namespace muster

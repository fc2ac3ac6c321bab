#include "muster/core/collective/arguments.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/device.h"
#include "muster/core/collective/reduce_op.h"

namespace muster {
namespace {

// Rank 1 of 4 on the CPU.
class ArgumentCheckTest : public testing::Test {
 protected:
  Buffer F32(int64_t offset, int64_t count) {
    return Buffer::Of(absl::MakeSpan(memory_)).Slice(offset, count);
  }
  static void ExpectInvalid(const absl::Status& status, const std::string& message) {
    EXPECT_EQ(status, absl::InvalidArgumentError(message));
  }

  std::vector<float> memory_ = std::vector<float>(100);
  ArgumentCheck check_{1, 4, Device::Cpu()};
};

TEST_F(ArgumentCheckTest, AllReduceTakesOneMemoryOrTwo) {
  EXPECT_TRUE(check_.AllReduce(F32(0, 8), F32(0, 8), ReduceOp::kSum).ok());
  EXPECT_TRUE(check_.AllReduce(F32(0, 8), F32(8, 8), ReduceOp::kAverage).ok());
  EXPECT_TRUE(check_.AllReduce(F32(0, 0), F32(0, 0), ReduceOp::kMin).ok());
  EXPECT_TRUE(check_.AllReduce(Buffer(), Buffer(), ReduceOp::kMax).ok());
}

TEST_F(ArgumentCheckTest, OverlapIsRefusedWithTheDistance) {
  ExpectInvalid(check_.AllReduce(F32(0, 8), F32(4, 8), ReduceOp::kSum),
                "out (f32[8] on cpu) begins 16 bytes after the begin of in (f32[8] on cpu) and "
                "overlaps it: give the same memory twice, or two that are apart");
  ExpectInvalid(check_.AllReduce(F32(7, 8), F32(0, 8), ReduceOp::kSum),
                "out (f32[8] on cpu) begins 28 bytes before the begin of in (f32[8] on cpu) and "
                "overlaps it: give the same memory twice, or two that are apart");
}

TEST_F(ArgumentCheckTest, CountsAndTypesOfInAndOutAgree) {
  ExpectInvalid(check_.AllReduce(F32(0, 8), F32(8, 7), ReduceOp::kSum),
                "in is f32[8] on cpu and out is f32[7] on cpu: give both the same count");
  Buffer ints = F32(8, 8);
  ints.dtype = DataType::kI32;
  ExpectInvalid(check_.AllReduce(F32(0, 8), ints, ReduceOp::kSum),
                "in is f32[8] on cpu and out is i32[8] on cpu: give both the same type");
  ExpectInvalid(check_.AllGather(F32(0, 2), ints),
                "in is f32[2] on cpu and out is i32[8] on cpu: give both the same type");
}

TEST_F(ArgumentCheckTest, ABufferThatCannotBeIsRefusedWhereverItStands) {
  ExpectInvalid(check_.Broadcast(Buffer{nullptr, 3}, 0),
                "buffer is f32[3] on cpu at a null pointer");
  ExpectInvalid(check_.Send(F32(0, -1), 0),
                "buffer is f32[-1] on cpu: a count of elements cannot be negative");
  ExpectInvalid(check_.Receive(F32(0, std::numeric_limits<int64_t>::max() / 2), 0),
                "buffer is f32[4611686018427387903] on cpu: that is more than any memory holds");
  Buffer elsewhere = F32(0, 3);
  elsewhere.device = Device::Cuda(1);
  ExpectInvalid(check_.AllReduce(F32(0, 3), elsewhere, ReduceOp::kSum),
                "out is f32[3] on cuda:1, and this group works on cpu: copy it there, or use a "
                "group of that device");
  Buffer crooked = F32(0, 3);
  crooked.data = reinterpret_cast<char*>(memory_.data()) + 1;
  ExpectInvalid(check_.Broadcast(crooked, 0),
                "buffer is f32[3] on cpu at an address 1 bytes past a multiple of 4: align it to "
                "its elements");
  Buffer unknown = F32(0, 3);
  unknown.dtype = static_cast<DataType>(99);
  ExpectInvalid(check_.Broadcast(unknown, 0), "buffer has the type 99, which is no DataType");
}

TEST_F(ArgumentCheckTest, BytesOfAnyAddressAreFine) {
  Buffer bytes = F32(0, 3);
  bytes.dtype = DataType::kU8;
  bytes.data = reinterpret_cast<char*>(memory_.data()) + 1;
  EXPECT_TRUE(check_.Broadcast(bytes, 0).ok());
}

TEST_F(ArgumentCheckTest, AReductionIsOneThatExists) {
  Buffer ints = F32(0, 4);
  ints.dtype = DataType::kI32;
  ExpectInvalid(check_.AllReduce(ints, ints, ReduceOp::kAverage),
                std::string(CheckReduction(ReduceOp::kAverage, DataType::kI32).message()));
  ExpectInvalid(check_.Reduce(ints, ints, ReduceOp::kAverage, 3),
                std::string(CheckReduction(ReduceOp::kAverage, DataType::kI32).message()));
  ExpectInvalid(check_.ReduceScatter(ints, ints.Slice(1, 1), static_cast<ReduceOp>(9)),
                "the reduction is 9, which is no ReduceOp (0 to 4 are)");
}

TEST_F(ArgumentCheckTest, RootAndPeerAreRanksOfTheGroup) {
  EXPECT_TRUE(check_.Broadcast(F32(0, 1), 3).ok());
  ExpectInvalid(check_.Broadcast(F32(0, 1), 4), "root is 4: this group has the ranks 0 to 3");
  ExpectInvalid(check_.Reduce(F32(0, 1), F32(1, 1), ReduceOp::kSum, -1),
                "root is -1: this group has the ranks 0 to 3");
  ExpectInvalid(check_.Gather(F32(0, 1), F32(1, 4), 9),
                "root is 9: this group has the ranks 0 to 3");
  ExpectInvalid(check_.Scatter(F32(0, 1), F32(1, 4), 9),
                "root is 9: this group has the ranks 0 to 3");
  EXPECT_TRUE(check_.Send(F32(0, 1), 0).ok());
  ExpectInvalid(check_.Send(F32(0, 1), 4), "peer is 4: this group has the ranks 0 to 3");
  ExpectInvalid(check_.Receive(F32(0, 1), 1), "peer is 1, this rank itself: name another one");
}

TEST_F(ArgumentCheckTest, WhatOnlyTheRootUsesIsCheckedThereAlone) {
  EXPECT_TRUE(check_.Reduce(F32(0, 4), F32(2, 1), ReduceOp::kSum, 0).ok());
  EXPECT_FALSE(check_.Reduce(F32(0, 4), F32(2, 1), ReduceOp::kSum, 1).ok());
  EXPECT_TRUE(check_.Gather(F32(0, 4), Buffer(), 0).ok());
  EXPECT_FALSE(check_.Gather(F32(0, 4), Buffer(), 1).ok());
  EXPECT_TRUE(check_.Scatter(ConstBuffer(), F32(0, 4), 0).ok());
  EXPECT_FALSE(check_.Scatter(ConstBuffer(), F32(0, 4), 1).ok());
}

TEST_F(ArgumentCheckTest, AllGatherTakesItsOwnSliceOfOutOrMemoryApart) {
  EXPECT_TRUE(check_.AllGather(F32(50, 3), F32(0, 12)).ok());
  EXPECT_TRUE(check_.AllGather(F32(3, 3), F32(0, 12)).ok());
  ExpectInvalid(check_.AllGather(F32(0, 3), F32(0, 12)),
                "out (f32[12] on cpu) begins 0 bytes after the begin of in (f32[3] on cpu) and "
                "overlaps it: give slice 1 of out as in, or two that are apart");
  ExpectInvalid(
      check_.AllGather(F32(50, 3), F32(0, 11)),
      "`out` is f32[11] on cpu and `in` is f32[3] on cpu: `out` needs as many elements as "
      "the `in` of 4 ranks together, 4 * 3");
  EXPECT_TRUE(check_.Gather(F32(3, 3), F32(0, 12), 1).ok());
}

TEST_F(ArgumentCheckTest, ReduceScatterAndScatterTakeTheirSliceOfInOrMemoryApart) {
  EXPECT_TRUE(check_.ReduceScatter(F32(0, 12), F32(3, 3), ReduceOp::kSum).ok());
  EXPECT_TRUE(check_.ReduceScatter(F32(0, 12), F32(12, 3), ReduceOp::kSum).ok());
  ExpectInvalid(check_.ReduceScatter(F32(0, 12), F32(6, 3), ReduceOp::kSum),
                "out (f32[3] on cpu) begins 24 bytes after the begin of in (f32[12] on cpu) and "
                "overlaps it: give slice 1 of in as out, or two that are apart");
  ExpectInvalid(check_.ReduceScatter(F32(0, 13), F32(20, 3), ReduceOp::kSum),
                "`in` is f32[13] on cpu and `out` is f32[3] on cpu: `in` needs as many elements as "
                "the `out` of 4 ranks together, 4 * 3");
  EXPECT_TRUE(check_.Scatter(F32(0, 12), F32(3, 3), 1).ok());
  EXPECT_FALSE(check_.Scatter(F32(0, 12), F32(0, 3), 1).ok());
}

TEST_F(ArgumentCheckTest, AllToAllNeedsEqualMultiplesApart) {
  EXPECT_TRUE(check_.AllToAll(F32(0, 8), F32(8, 8)).ok());
  ExpectInvalid(check_.AllToAll(F32(0, 7), F32(8, 7)),
                "in is f32[7] on cpu and out is f32[7] on cpu: give both the same count, a "
                "multiple of the number of ranks, 4");
  ExpectInvalid(check_.AllToAll(F32(0, 8), F32(0, 8)),
                "out (f32[8] on cpu) begins 0 bytes after the begin of in (f32[8] on cpu) and "
                "overlaps it: this operation does not work in place");
}

TEST_F(ArgumentCheckTest, AllToAllVCountsAddUp) {
  EXPECT_TRUE(check_.AllToAllV(F32(0, 6), {1, 2, 3, 0}, F32(10, 4), {1, 2, 0, 1}).ok());
  ExpectInvalid(check_.AllToAllV(F32(0, 6), {1, 2, 3}, F32(10, 4), {1, 2, 0, 1}),
                "in_counts has 3 entries: one for each of the 4 ranks is needed");
  ExpectInvalid(check_.AllToAllV(F32(0, 6), {1, 2, 3, 0}, F32(10, 4), {1, 2, -1, 2}),
                "out_counts[2] is -1: a count of elements cannot be negative");
  ExpectInvalid(check_.AllToAllV(F32(0, 6), {1, 2, 2, 0}, F32(10, 4), {1, 2, 0, 1}),
                "in is f32[6] on cpu and in_counts adds up to 5 only");
  ExpectInvalid(check_.AllToAllV(F32(0, 6), {1, 2, 3, 1}, F32(10, 4), {1, 2, 0, 1}),
                "in is f32[6] on cpu and in_counts adds up to more with entry 3, which is 1");
  ExpectInvalid(check_.AllToAllV(F32(0, 6), {1, 2, 3, 0}, F32(10, 4), {2, 1, 0, 1}),
                "in_counts[1] is 2 and out_counts[1] is 1: this rank sends itself as much as it "
                "receives from itself");
}

TEST_F(ArgumentCheckTest, TransfersMayShareOnlyWhatIsSent) {
  const auto send = [](Buffer b) { return PeerTransfer{PeerTransfer::Kind::kSend, 0, b}; };
  const auto receive = [](Buffer b) { return PeerTransfer{PeerTransfer::Kind::kReceive, 2, b}; };
  EXPECT_TRUE(check_.Transfer({}).ok());
  EXPECT_TRUE(check_.Transfer({send(F32(0, 8)), send(F32(0, 8)), receive(F32(8, 4))}).ok());
  const std::string shared =
      " share memory that is received into: give each receive memory of its own";
  ExpectInvalid(check_.Transfer({send(F32(0, 8)), receive(F32(7, 4))}),
                "transfers 0 and 1" + shared);
  ExpectInvalid(check_.Transfer({receive(F32(7, 4)), send(F32(0, 8))}),
                "transfers 0 and 1" + shared);
  ExpectInvalid(check_.Transfer({receive(F32(0, 20)), send(F32(2, 1)), send(F32(30, 1))}),
                "transfers 0 and 1" + shared);
  ExpectInvalid(check_.Transfer({send(F32(0, 20)), send(F32(2, 1)), receive(F32(10, 1))}),
                "transfers 0 and 2" + shared);
  ExpectInvalid(check_.Transfer({send(F32(0, 1)), {PeerTransfer::Kind::kReceive, 1, F32(1, 1)}}),
                "transfer 1: peer is 1, this rank itself: name another one");
  ExpectInvalid(check_.Transfer({send(Buffer{nullptr, 1})}),
                "transfer 0: buffer is f32[1] on cpu at a null pointer");
}

TEST_F(ArgumentCheckTest, ATransferSendsOrReceives) {
  std::vector<PeerTransfer> transfers = {{PeerTransfer::Kind::kSend, 0, F32(0, 4)},
                                         {PeerTransfer::Kind::kReceive, 0, F32(4, 4)}};
  EXPECT_TRUE(check_.Transfer(transfers).ok());
  transfers[1].kind = static_cast<PeerTransfer::Kind>(5);
  ExpectInvalid(check_.Transfer(transfers),
                "transfer 1: its kind is 5, which is no PeerTransfer::Kind (0 to 1 are)");
}

}  // namespace
}  // namespace muster

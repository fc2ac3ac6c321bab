#include "muster/core/collective/communicator.h"

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/buffer.h"

namespace muster {
namespace {

// What a backend must write: nothing but how it ends.
class BareCommunicator : public Communicator {
 public:
  absl::Status Finalize(absl::Time) override { return absl::OkStatus(); }
  void Abort(const absl::Status&) noexcept override {}
  Holdings Held() const override { return {}; }
};

TEST(CommunicatorTest, WhatABackendDoesNotOfferIsUnimplementedAndNamed) {
  BareCommunicator bare;
  Communicator& c = bare;
  float value = 0;
  const Buffer buffer = Buffer::Of(value);
  const OperationOptions options;
  const auto expect = [](const absl::Status& status, const std::string& operation) {
    EXPECT_EQ(status, absl::UnimplementedError(operation + " is not offered by this backend"));
  };
  expect(c.AllReduce(buffer, buffer, ReduceOp::kSum, options), "all_reduce");
  expect(c.Broadcast(buffer, 0, options), "broadcast");
  expect(c.Reduce(buffer, buffer, ReduceOp::kSum, 0, options), "reduce");
  expect(c.AllGather(buffer, buffer, options), "all_gather");
  expect(c.Gather(buffer, buffer, 0, options), "gather");
  expect(c.Scatter(buffer, buffer, 0, options), "scatter");
  expect(c.ReduceScatter(buffer, buffer, ReduceOp::kSum, options), "reduce_scatter");
  expect(c.AllToAll(buffer, buffer, options), "all_to_all");
  expect(c.AllToAllV(buffer, {1}, buffer, {1}, options), "all_to_all_v");
  expect(c.Barrier(options), "barrier");
  expect(c.Send(buffer, 1, options), "send");
  expect(c.Receive(buffer, 1, options), "receive");
  expect(c.Transfer({}, options), "transfer");
  expect(c.Split(0, 0, ConnectContext()).status(), "split");
  expect(c.Allocate(1).status(), "allocate");
  expect(c.Register(buffer).status(), "register");
  expect(c.Deregister(1), "deregister");
}

TEST(CommunicatorTest, CapabilitiesListWhatTheyHave) {
  const Capabilities some = {Capability::kBarrier, Capability::kAllReduce};
  EXPECT_TRUE(some.Has(Capability::kBarrier));
  EXPECT_FALSE(some.Has(Capability::kSplit));
  EXPECT_EQ(some.ToString(), "all_reduce, barrier");
  EXPECT_EQ(Capabilities().ToString(), "nothing");
}

TEST(CommunicatorTest, CapabilitiesAreReadAsTheyAreWritten) {
  const Capabilities some = {Capability::kBarrier, Capability::kAllReduce};
  for (const char* list : {"all_reduce, barrier", "barrier,all_reduce", " barrier all_reduce,"}) {
    ASSERT_TRUE(Capabilities::Parse(list).ok()) << list;
    EXPECT_TRUE(*Capabilities::Parse(list) == some) << list;
  }
  for (const char* list : {"", " ", "nothing"}) {
    ASSERT_TRUE(Capabilities::Parse(list).ok()) << list;
    EXPECT_TRUE(*Capabilities::Parse(list) == Capabilities()) << list;
  }
  for (const char* list : {"all_reduces", "nothing, barrier", "barrier; all_reduce"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Capabilities::Parse(list).status())) << list;
  }
  EXPECT_EQ(Capabilities::Parse("barrier,x").status().message(),
            "unknown capability \"x\" in \"barrier,x\": expected some of all_reduce, broadcast, "
            "reduce, all_gather, gather, scatter, reduce_scatter, all_to_all, barrier, "
            "send_receive, split, allocate, register");
}

TEST(CommunicatorTest, HoldingsAreReadable) {
  Holdings held;
  EXPECT_TRUE(held.empty());
  EXPECT_EQ(held.ToString(), "nothing");
  held.file_descriptors = 2;
  held.threads = 1;
  EXPECT_FALSE(held.empty());
  EXPECT_EQ(held.ToString(), "2 file descriptors, 1 thread");
}

}  // namespace
}  // namespace muster

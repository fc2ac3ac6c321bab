#include "muster/core/group/operation_gate.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Kind = OperationGate::Kind;
using Mode = OperationGate::Mode;
using ::testing::HasSubstr;

class OperationGateTest : public ::testing::Test {
 protected:
  OperationGateTest() : gate_(absl::FailedPreconditionError("not ready")) { gate_.Open(); }

  OperationGate::Ticket Enter(absl::string_view name = "all_reduce", Kind kind = Kind::kCollective,
                              Mode mode = Mode::kBlocking) {
    absl::StatusOr<OperationGate::Ticket> ticket = gate_.Enter(name, kind, mode);
    EXPECT_TRUE(ticket.ok()) << ticket.status();
    return ticket.ok() ? *ticket : OperationGate::Ticket();
  }
  std::string Refusal(Kind kind = Kind::kCollective) {
    return std::string(gate_.Enter("all_reduce", kind, Mode::kBlocking).status().message());
  }
  // Drains and remembers what it was told.
  bool Drain(int64_t sequence) {
    return gate_.Drain(sequence, "rank 0 closed", [this](int64_t n) { drained_.push_back(n); });
  }

  OperationGate gate_;
  std::vector<int64_t> drained_;
};

TEST_F(OperationGateTest, IsShutUntilItIsOpened) {
  OperationGate gate(absl::FailedPreconditionError("not ready"));
  EXPECT_EQ(gate.Enter("barrier", Kind::kCollective, Mode::kBlocking).status().message(),
            "not ready");
  EXPECT_EQ(gate.issued(), 0) << "a refused operation has no number";
}

TEST_F(OperationGateTest, NumbersCollectivesAndNotPointToPoint) {
  gate_.Leave(Enter("all_reduce"));
  const OperationGate::Ticket send = Enter("send", Kind::kPointToPoint);
  EXPECT_EQ(send.label, "send");
  gate_.Leave(send);
  const OperationGate::Ticket second = Enter("broadcast");
  EXPECT_EQ(second.label, "broadcast #2");
  EXPECT_EQ(gate_.completed(), 1);
  gate_.Leave(second);
  EXPECT_EQ(gate_.completed(), 2);
}

TEST_F(OperationGateTest, TwoThreadsAreNotLetInAtOnce) {
  const OperationGate::Ticket first = Enter("broadcast");
  EXPECT_THAT(Refusal(), HasSubstr("another thread is in broadcast #1"));
  gate_.Leave(first);
  gate_.Leave(Enter());
}

TEST_F(OperationGateTest, ABlockingOperationBehindQueuedOnesJoinsThem) {
  const auto first = Enter("all_reduce", Kind::kCollective, Mode::kQueued);
  const auto second = Enter("barrier", Kind::kCollective, Mode::kBlocking);
  EXPECT_EQ(second.mode, Mode::kQueued);
  EXPECT_EQ(gate_.Inside(), "2 operations, all_reduce #1 first");
  gate_.Leave(first);
  EXPECT_EQ(gate_.Inside(), "barrier #2");
  gate_.Leave(second);
  EXPECT_TRUE(gate_.idle());
}

TEST_F(OperationGateTest, AThreadThatWaitsInTheQueueIsInItsOperationAsIfItRanIt) {
  const auto first = Enter("all_reduce", Kind::kCollective, Mode::kQueued);
  const auto joined = Enter("barrier", Kind::kCollective, Mode::kBlocking);
  for (Mode mode : {Mode::kBlocking, Mode::kQueued}) {
    EXPECT_THAT(std::string(gate_.Enter("broadcast", Kind::kCollective, mode).status().message()),
                HasSubstr("another thread is in barrier #2"));
  }
  gate_.Leave(first);
  EXPECT_THAT(Refusal(), HasSubstr("another thread is in barrier #2"));
  gate_.Leave(joined);
  gate_.Leave(Enter());
}

TEST_F(OperationGateTest, WhatIsTakenOutOfTheQueueLeavesTheOthersInside) {
  const auto stuck = Enter("all_reduce", Kind::kCollective, Mode::kQueued);
  const auto second = Enter("barrier", Kind::kCollective, Mode::kQueued);
  gate_.Refuse(absl::UnavailableError("rank 3 was lost"));
  gate_.Leave(second);
  EXPECT_EQ(gate_.Inside(), "all_reduce #1");
  gate_.Leave(stuck);
  EXPECT_EQ(gate_.completed(), 2);
}

TEST_F(OperationGateTest, AnIdleGateDrainsAtOnce) {
  gate_.Leave(Enter());
  EXPECT_TRUE(Drain(1));
  EXPECT_EQ(drained_, std::vector<int64_t>{1});
  EXPECT_THAT(Refusal(), HasSubstr("the group is draining: rank 0 closed"));
  EXPECT_THAT(Refusal(Kind::kPointToPoint), HasSubstr("the group is draining"));
}

TEST_F(OperationGateTest, WorkUpToTheCloseIsLetInAndFinishes) {
  EXPECT_TRUE(Drain(2));
  EXPECT_TRUE(drained_.empty());
  gate_.Leave(Enter());
  EXPECT_TRUE(drained_.empty()) << "#2 is still to come";
  const auto last = Enter();
  EXPECT_THAT(Refusal(), HasSubstr("draining"));
  gate_.Leave(last);
  EXPECT_EQ(drained_, std::vector<int64_t>{2});
}

TEST_F(OperationGateTest, WorkBeyondTheCloseThatIsInsideIsReported) {
  const auto beyond = Enter();
  EXPECT_FALSE(Drain(0));
  gate_.Leave(beyond);
  EXPECT_TRUE(drained_.empty()) << "the close failed, it did not drain";
}

TEST_F(OperationGateTest, ASecondDrainReplacesTheFirst) {
  EXPECT_TRUE(Drain(5));
  EXPECT_TRUE(Drain(0));
  EXPECT_EQ(drained_, std::vector<int64_t>{0});
}

TEST_F(OperationGateTest, SealingLetsNothingInAndGivesTheLastNumber) {
  gate_.Leave(Enter());
  EXPECT_EQ(gate_.Seal("rank 1 closed"), 1);
  EXPECT_THAT(Refusal(), HasSubstr("rank 1 closed"));
  EXPECT_TRUE(Drain(2)) << "a peer had closed after one more";
  EXPECT_FALSE(gate_.status().ok()) << "which was refused here, and is not let in again";
  EXPECT_EQ(drained_, std::vector<int64_t>{1});
}

TEST_F(OperationGateTest, TheFirstRefusalStaysUnlessItIsReplaced) {
  gate_.Refuse(absl::FailedPreconditionError("closed"));
  gate_.Refuse(absl::UnavailableError("rank 3 was lost"));
  EXPECT_EQ(gate_.status().message(), "closed");
  gate_.Refuse(absl::UnavailableError("rank 3 was lost"), /*replace=*/true);
  EXPECT_EQ(Refusal(), "rank 3 was lost");
}

TEST_F(OperationGateTest, ARefusedGateNeverDrains) {
  const auto inside = Enter();
  EXPECT_TRUE(Drain(1));
  gate_.Refuse(absl::UnavailableError("rank 3 was lost"));
  gate_.Leave(inside);
  EXPECT_TRUE(drained_.empty());
}

}  // namespace
}  // namespace muster

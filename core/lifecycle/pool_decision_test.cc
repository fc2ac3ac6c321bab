#include "muster/core/lifecycle/pool_decision.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Kind = AcquireDecision::Kind;
using ::testing::HasSubstr;

NamedGroup Live() {
  NamedGroup group;
  group.exists = true;
  group.id = "train/1";
  group.state = GroupState::kReady;
  return group;
}

TEST(PoolDecisionTest, AFreeNameIsCreated) {
  EXPECT_EQ(DecideAcquire(NamedGroup()).kind, Kind::kCreate);
  NamedGroup ended = Live();
  for (GroupState state : {GroupState::kDestroyed, GroupState::kAborted}) {
    ended.state = state;
    ended.difference = "backend";
    EXPECT_EQ(DecideAcquire(ended).kind, Kind::kCreate) << Name(state);
  }
}

TEST(PoolDecisionTest, AnEqualLiveGroupIsReusedHeldOrNot) {
  NamedGroup group = Live();
  EXPECT_EQ(DecideAcquire(group).kind, Kind::kReuse);
  group.holders = "a.cc:1";
  EXPECT_EQ(DecideAcquire(group).kind, Kind::kReuse);
}

TEST(PoolDecisionTest, AHitIsNotAnsweredDuringAVoteOnTheReplacement) {
  NamedGroup group = Live();
  group.voting = true;
  EXPECT_EQ(DecideAcquire(group).kind, Kind::kWait);
  group.difference = "backend";
  EXPECT_EQ(DecideAcquire(group).kind, Kind::kWait);
}

TEST(PoolDecisionTest, WhatIsBeingMadeOrEndedIsWaitedFor) {
  NamedGroup group = Live();
  for (GroupState state : {GroupState::kCreated, GroupState::kRendezvous, GroupState::kConnecting,
                           GroupState::kDraining, GroupState::kClosing, GroupState::kAborting}) {
    group.state = state;
    EXPECT_EQ(DecideAcquire(group).kind, Kind::kWait) << Name(state);
  }
}

// As in `lease = pool.Acquire(other)` after a failure: some ranks have aborted already, some have
// not, and all must create.
TEST(PoolDecisionTest, WhatEndsIsWaitedForThoughItIsHeldAndAnotherIdentityIsWanted) {
  NamedGroup group = Live();
  group.difference = "backend is 'gloo' there and 'reference' is wanted";
  group.holders = "trainer.cc:88";
  for (GroupState state : {GroupState::kDraining, GroupState::kClosing, GroupState::kAborting}) {
    group.state = state;
    EXPECT_EQ(DecideAcquire(group).kind, Kind::kWait) << Name(state);
  }
}

TEST(PoolDecisionTest, AnotherIdentityIsProposedWhenNobodyHoldsTheNameHere) {
  NamedGroup group = Live();
  group.difference = "backend is 'gloo' there and 'reference' is wanted";
  EXPECT_EQ(DecideAcquire(group).kind, Kind::kPropose);
}

TEST(PoolDecisionTest, AnotherIdentityIsRefusedWhileHeldWithHoldersAndDifference) {
  NamedGroup group = Live();
  group.difference = "backend is 'gloo' there and 'reference' is wanted";
  group.holders = "trainer.cc:88";
  const AcquireDecision decision = DecideAcquire(group);
  EXPECT_EQ(decision.kind, Kind::kRefuse);
  EXPECT_EQ(decision.why.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(decision.why.message()),
              HasSubstr("'train/1' is held here (trainer.cc:88)"));
  EXPECT_THAT(std::string(decision.why.message()), HasSubstr(group.difference));
}

}  // namespace
}  // namespace muster

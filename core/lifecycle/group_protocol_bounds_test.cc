// L1 in GroupProtocol: an abort ends within its bound, whoever does not answer.
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/lifecycle/group_protocol.h"
#include "muster/core/lifecycle/protocol_driver.h"

namespace muster {
namespace {

using Way = void (ProtocolDriver::*)();

TEST(GroupProtocolBoundsTest, ABackendThatHoldsOnIsNamedAndNotWaitedFor) {
  ProtocolDriver driver;
  driver.ToAborting();
  driver.AnswerWrite();
  driver.Sleep(ProtocolDriver::kClose - absl::Milliseconds(1));
  EXPECT_FALSE(driver.Did<action::NameResidue>());
  driver.Sleep(absl::Milliseconds(1));
  EXPECT_TRUE(driver.Did<action::NameResidue>());
  driver.Take(driver.protocol.OnReleased());
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
}

TEST(GroupProtocolBoundsTest, AStoreThatDoesNotAnswerDoesNotHoldAnAbort) {
  ProtocolDriver driver;
  driver.ToAborting();
  driver.Take(driver.protocol.OnReleased());
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  driver.Wake();
  EXPECT_EQ(driver.now, absl::FromUnixSeconds(1000) + ProtocolDriver::kClose)
      << "one alarm, not a busy wait";
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
  EXPECT_EQ(driver.protocol.cause(), absl::InternalError("boom"));
  driver.AnswerWrite();
  EXPECT_TRUE(driver.actions.empty());
}

// Liveness: a stop that is shorter than the heartbeat does no harm. When a rank goes on its alarm
// may come before the news that it has not read.
TEST(GroupProtocolBoundsTest, ARankThatWasStoppedHearsTheCauseBeforeItSaysItsOwn) {
  const absl::Status theirs = absl::InternalError("rank 1: label 17 out of range");
  for (const Certainty certainty : {Certainty::kSuspicion, Certainty::kCause}) {
    ProtocolDriver driver;
    driver.ToReady();
    driver.Take(
        driver.protocol.Fail(driver.now, absl::UnavailableError("lost contact"), certainty));
    driver.Take(driver.protocol.OnReleased());
    driver.now += 2 * ProtocolDriver::kClose;  // stopped
    driver.Take(driver.protocol.OnTimer(driver.now));
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
    driver.PeerFails(theirs);
    EXPECT_EQ(driver.protocol.cause(), theirs);
  }
  ProtocolDriver alone;
  alone.ToReady();
  alone.Take(alone.protocol.Fail(alone.now, absl::UnavailableError("lost contact"),
                                 Certainty::kSuspicion));
  alone.Take(alone.protocol.OnReleased());
  alone.now += 2 * ProtocolDriver::kClose;
  alone.Take(alone.protocol.OnTimer(alone.now));
  alone.Sleep(ProtocolDriver::kWindow);
  EXPECT_EQ(alone.protocol.state(), GroupState::kAborted) << "but not for ever";
}

// The ranks turned out to have met just before the rank that gave up would have gone alone.
TEST(GroupProtocolBoundsTest, ACauseThatWasJustWrittenIsWaitedForWithinTheBound) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToRendezvous();
  const absl::Time start = driver.now;
  driver.Take(driver.protocol.Fail(driver.now, absl::CancelledError("enough"), Certainty::kCause));
  driver.Take(driver.protocol.OnReleased());
  driver.now += ProtocolDriver::kClose - absl::Milliseconds(1);
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));
  ASSERT_TRUE(driver.pending_write.has_value());
  driver.Wake();
  EXPECT_EQ(driver.now, start + ProtocolDriver::kClose);
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  driver.Wake();
  EXPECT_LE(driver.now, start + ProtocolDriver::kClose + ProtocolDriver::kWindow);
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
}

// Whoever has no time left for the window of a suspicion still tells the others.
TEST(GroupProtocolBoundsTest, ASuspicionIsWrittenHoweverShortTheBound) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, absl::UnavailableError("lost contact"),
                                   Certainty::kSuspicion, absl::Milliseconds(10)));
  driver.Take(driver.protocol.OnReleased());
  driver.Sleep(ProtocolDriver::kWindow);
  EXPECT_TRUE(driver.pending_write.has_value());
  driver.Sleep(absl::Milliseconds(10));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
}

TEST(GroupProtocolBoundsTest, ACloseThatEndsInAnAbortHasTwoBoundsAndNoMore) {
  ProtocolDriver driver;
  driver.ToClosing();
  const absl::Time start = driver.now;
  driver.Sleep(2 * ProtocolDriver::kClose);
  EXPECT_TRUE(driver.Did<action::NameResidue>());
  driver.Take(driver.protocol.OnReleased());
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
  EXPECT_EQ(driver.now, start + 2 * ProtocolDriver::kClose);
}

TEST(GroupProtocolBoundsTest, AnAbortKeepsToTheBoundOfWhoAborts) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, absl::InternalError("boom"), Certainty::kCause,
                                   absl::Milliseconds(10)));
  driver.Sleep(absl::Milliseconds(9));
  EXPECT_FALSE(driver.Did<action::NameResidue>());
  driver.Sleep(absl::Milliseconds(1));
  EXPECT_EQ(driver.The<action::NameResidue>().within, absl::Milliseconds(10));
  driver.Take(driver.protocol.Hurry(driver.now, absl::Milliseconds(10)));
  driver.Sleep(absl::Milliseconds(10));
  EXPECT_FALSE(driver.Did<action::NameResidue>()) << "once";
  driver.Take(driver.protocol.OnReleased());
  driver.Wake();  // the store does not answer
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
}

TEST(GroupProtocolBoundsTest, ACloseWhoseOwnerHasNoMoreTimeFailsAtOnceAndEndsWithinItsBound) {
  for (Way way : {&ProtocolDriver::ToDraining, &ProtocolDriver::ToVoting,
                  &ProtocolDriver::ToClosing, &ProtocolDriver::ToAborting}) {
    ProtocolDriver driver;
    (driver.*way)();
    driver.Take(driver.protocol.Hurry(driver.now, absl::Milliseconds(10)));
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
    driver.Sleep(absl::Milliseconds(10));
    driver.Take(driver.protocol.OnReleased());
    driver.Sleep(ProtocolDriver::kWindow);
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
  }
  ProtocolDriver ready;
  ready.ToReady();
  ready.Take(ready.protocol.Hurry(ready.now, absl::Milliseconds(10)));
  EXPECT_EQ(ready.protocol.state(), GroupState::kReady) << "nobody closes it";
}

TEST(GroupProtocolBoundsTest, AFailureWithoutACauseGetsOneAndEnds) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, absl::OkStatus(), Certainty::kCause));
  driver.AnswerWrite();
  EXPECT_FALSE(driver.pending_write.has_value()) << "written once, not for ever";
  driver.Take(driver.protocol.OnReleased());
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
  EXPECT_EQ(driver.protocol.cause(), absl::InternalError("rank 0 gave no cause"));
}

// L2: what is still waiting in the store is taken back before the group is terminal.
TEST(GroupProtocolBoundsTest, AContributionThatWaitsIsWithdrawnBeforeTheEnd) {
  for (Way way : {&ProtocolDriver::ToConfirming, &ProtocolDriver::ToVoting}) {
    ProtocolDriver driver;
    (driver.*way)();
    driver.Take(driver.protocol.Fail(driver.now, absl::InternalError("boom"), Certainty::kCause));
    driver.Take(driver.protocol.OnReleased());
    EXPECT_FALSE(driver.Did<action::Withdraw>())
        << "the cause comes first, so that nobody takes the withdrawal for one";
    driver.AnswerWrite();
    ASSERT_TRUE(driver.Did<action::Withdraw>());
    EXPECT_EQ(driver.The<action::Withdraw>().reason, "boom");
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
  }
}

}  // namespace
}  // namespace muster

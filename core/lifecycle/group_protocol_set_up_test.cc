// GroupProtocol from Start to ready.
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/lifecycle/group_protocol.h"
#include "muster/core/lifecycle/protocol_driver.h"
#include "muster/core/store/gather_error.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string CauseOf(const ProtocolDriver& driver) {
  return std::string(driver.protocol.cause().message());
}

TEST(GroupProtocolSetUpTest, TheRanksMeetThenConnectThenConfirmThenAreReady) {
  ProtocolDriver driver(/*rank=*/1);
  driver.Take(driver.protocol.Start(driver.now));
  EXPECT_EQ(driver.The<action::Meet>().key, "meet/train");
  EXPECT_EQ(driver.The<action::Meet>().deadline, driver.now + ProtocolDriver::kSetup);
  EXPECT_EQ(driver.protocol.id(), "train");

  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions(4)));
  EXPECT_EQ(driver.protocol.id(), "train/5");
  EXPECT_FALSE(driver.Did<action::WriteRecord>()) << "rank 0 writes it";

  GroupRecord live;
  live.generation = 5;
  live.incarnations = {100, 101};
  driver.PeerWrites(live);
  EXPECT_EQ(driver.The<action::Connect>().agreement.generation, 5);
  EXPECT_EQ(driver.The<action::Connect>().agreement.backend, "gloo");

  driver.Take(driver.protocol.OnConnected(driver.now, absl::OkStatus()));
  EXPECT_EQ(driver.The<action::Confirm>().key, "connected/train/5");
  EXPECT_EQ(driver.protocol.state(), GroupState::kConnecting);

  driver.Take(driver.protocol.OnAllConnected(driver.now, driver.Values({"", ""})));
  EXPECT_EQ(driver.protocol.state(), GroupState::kReady);
  EXPECT_EQ(driver.wake_at, absl::InfiniteFuture());
}

TEST(GroupProtocolSetUpTest, ACallerWhoHadToWaitBeforeHasOneDeadlineForAll) {
  ProtocolDriver driver;
  GroupProtocol::Options options = ProtocolDriver::OptionsOf(0, 2);
  options.setup_by = driver.now + absl::Seconds(3);
  GroupProtocol hurried(options);
  driver.Take(hurried.Start(driver.now));
  EXPECT_EQ(driver.The<action::Meet>().deadline, options.setup_by);

  options.setup_by = driver.now + 2 * options.setup_timeout;
  GroupProtocol usual(options);
  driver.Take(usual.Start(driver.now));
  EXPECT_EQ(driver.The<action::Meet>().deadline, driver.now + options.setup_timeout);
}

// L8: if all who have met died before anything was written, the same number would be given out
// again.
TEST(GroupProtocolSetUpTest, NobodyConnectsBeforeTheRecordKnowsTheGeneration) {
  ProtocolDriver driver(/*rank=*/0);
  driver.ToRendezvous();
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));
  EXPECT_EQ(driver.The<action::WriteRecord>().expected, 0);
  EXPECT_EQ(driver.The<action::WriteRecord>().record.generation, 1);
  EXPECT_THAT(driver.The<action::WriteRecord>().record.incarnations, ElementsAre(100, 101));
  EXPECT_FALSE(driver.Did<action::Connect>());
  driver.AnswerWrite();
  EXPECT_TRUE(driver.Did<action::Connect>());
}

TEST(GroupProtocolSetUpTest, TheNewsOfTheRecordMayComeBeforeItsAnswerAndConnectsOnce) {
  ProtocolDriver driver(/*rank=*/0);
  driver.ToRendezvous();
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));
  driver.Take(
      driver.protocol.OnRecord(driver.now, driver.revision + 1, driver.pending_write->record));
  EXPECT_TRUE(driver.Did<action::Connect>());
  driver.AnswerWrite();
  EXPECT_TRUE(driver.actions.empty());
}

TEST(GroupProtocolSetUpTest, AWorldOfOneNeedsNoPeer) {
  ProtocolDriver driver(/*rank=*/0, /*size=*/1);
  driver.ToDestroyed();
  EXPECT_THAT(driver.path,
              ElementsAre(GroupState::kRendezvous, GroupState::kConnecting, GroupState::kConnecting,
                          GroupState::kReady, GroupState::kDraining, GroupState::kDraining,
                          GroupState::kClosing, GroupState::kClosing, GroupState::kDestroyed));
}

// L8: what the record knew when the group started is part of the introduction.
TEST(GroupProtocolSetUpTest, TheIntroductionCarriesTheHighestGenerationThatIsKnown) {
  ProtocolDriver driver;
  GroupRecord old;
  old.generation = 9;
  driver.PeerWrites(old);
  driver.ToRendezvous();
  EXPECT_EQ(Introduction::Decode(driver.The<action::Meet>().value)->known_generation, 9);
}

TEST(GroupProtocolSetUpTest, TheRecordOfAnEarlierGenerationIsReplacedWithAllThatItSaid) {
  ProtocolDriver driver;
  GroupRecord old;
  old.generation = 9;
  old.incarnations = {1, 2};
  old.cause = absl::InternalError("of generation 9");
  old.intent = CloseIntent();
  driver.PeerWrites(old);
  driver.ToConnecting(/*known_generation=*/9);
  EXPECT_EQ(driver.protocol.state(), GroupState::kConnecting);
  EXPECT_EQ(driver.record.generation, 10);
  EXPECT_TRUE(driver.record.cause.ok());
  EXPECT_FALSE(driver.record.intent.has_value());
}

TEST(GroupProtocolSetUpTest, ALostRaceForTheRecordIsTriedAgain) {
  ProtocolDriver driver(/*rank=*/0);
  driver.ToRendezvous();
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions(3)));
  GroupRecord old;  // written by a rank that was still busy with generation 3
  old.generation = 3;
  old.cause = absl::InternalError("of generation 3");
  driver.PeerWrites(old);
  driver.AnswerWrite();
  ASSERT_TRUE(driver.pending_write.has_value());
  EXPECT_EQ(driver.pending_write->expected, driver.record_revision);
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.generation, 4);
  EXPECT_TRUE(driver.record.cause.ok());
  EXPECT_EQ(driver.protocol.state(), GroupState::kConnecting);
}

TEST(GroupProtocolSetUpTest, RanksThatWantDifferentGroupsFailWithTheDifferenceAndHoldNothing) {
  ProtocolDriver driver;
  driver.ToRendezvous();
  Introduction other = ProtocolDriver::IntroductionOf(1);
  other.identity["backend"] = "reference";
  driver.Take(driver.protocol.OnMet(
      driver.now, driver.Values({ProtocolDriver::IntroductionOf(0).Encode(), other.Encode()})));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  EXPECT_THAT(CauseOf(driver), HasSubstr("backend is 'gloo' on rank 0 and 'reference' on rank 1"));
  EXPECT_FALSE(driver.Did<action::WriteRecord>());
  driver.Take(driver.protocol.OnReleased());
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
}

TEST(GroupProtocolSetUpTest, AnIntroductionThatCannotBeReadIsAnErrorAndNoCrash) {
  ProtocolDriver driver;
  driver.ToRendezvous();
  driver.Take(driver.protocol.OnMet(driver.now, driver.Values({"{", "\xff"})));
  EXPECT_EQ(driver.protocol.cause().code(), absl::StatusCode::kDataLoss);
}

TEST(GroupProtocolSetUpTest, PeersThatDoNotComeAreNamed) {
  ProtocolDriver driver;
  driver.ToRendezvous();
  driver.Take(
      driver.protocol.OnMet(driver.now, absl::DeadlineExceededError("ranks 2, 3 did not come")));
  EXPECT_EQ(driver.protocol.cause().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(CauseOf(driver), "the ranks of 'train' did not meet: ranks 2, 3 did not come");
}

TEST(GroupProtocolSetUpTest, WhatThoseThatAreMissingDidNotDoIsInWordsOfGroups) {
  ProtocolDriver meeting;
  meeting.ToRendezvous();
  meeting.Take(meeting.protocol.OnMet(
      meeting.now,
      absl::DeadlineExceededError(absl::StrCat("rank 1 of 2", DidNotComeToGather("meet/train")))));
  EXPECT_EQ(CauseOf(meeting),
            "the ranks of 'train' did not meet: rank 1 of 2 did not call Acquire for it in time "
            "(setup_timeout, 30s on rank 0)");
  ProtocolDriver confirming;
  confirming.ToConfirming();
  confirming.Take(confirming.protocol.OnAllConnected(
      confirming.now, absl::DeadlineExceededError(
                          absl::StrCat("rank 1 of 2", DidNotComeToGather("connected/train/1")))));
  confirming.AnswerWrite();
  EXPECT_EQ(CauseOf(confirming),
            "the ranks of 'train/1' did not all connect: rank 1 of 2 did not connect in time "
            "(setup_timeout, 30s on rank 0)");
}

// A store that is late says who is missing all the same.
TEST(GroupProtocolSetUpTest, AStoreThatIsLateStillSaysWhoDidNotCome) {
  const absl::Status late =
      absl::DeadlineExceededError(absl::StrCat("rank 0 of 2", DidNotComeToGather("meet/train")));
  ProtocolDriver driver(/*rank=*/1);
  driver.ToRendezvous();
  driver.Sleep(ProtocolDriver::kSetup + ProtocolDriver::kWindow);
  EXPECT_TRUE(driver.Did<action::Withdraw>());
  driver.Take(driver.protocol.OnReleased());
  driver.Take(driver.protocol.OnMet(driver.now, late));
  EXPECT_EQ(CauseOf(driver),
            "the ranks of 'train' did not meet: rank 0 of 2 did not call Acquire for it in time "
            "(setup_timeout, 30s on rank 1)");
  // A cause that is one is not replaced.
  ProtocolDriver aborted(/*rank=*/1);
  aborted.ToRendezvous();
  aborted.Take(aborted.protocol.Fail(aborted.now, absl::DeadlineExceededError("the user's"),
                                     Certainty::kCause));
  aborted.Take(aborted.protocol.OnReleased());
  aborted.Take(aborted.protocol.OnMet(aborted.now, late));
  EXPECT_EQ(CauseOf(aborted), "the user's");
}

TEST(GroupProtocolSetUpTest, AStoreOrABackendThatKeepsNoDeadlineIsNotWaitedFor) {
  const std::vector<std::pair<void (*)(ProtocolDriver&), const char*>> cases = {
      {[](ProtocolDriver& driver) { driver.ToRendezvous(); }, "waited to meet its peers"},
      {[](ProtocolDriver& driver) { driver.ToConnecting(); }, "waited for its backend to connect"},
      {[](ProtocolDriver& driver) { driver.ToConfirming(); }, "waited to hear that all connected"},
  };
  for (const auto& [go, what] : cases) {
    ProtocolDriver driver(/*rank=*/1);
    go(driver);
    EXPECT_EQ(driver.wake_at, driver.now + ProtocolDriver::kSetup + ProtocolDriver::kWindow);
    driver.Wake();
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
    EXPECT_TRUE(driver.Did<action::AbortBackend>());
    EXPECT_EQ(driver.The<action::AbortBackend>().cause.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(driver.The<action::AbortBackend>().cause.message()),
                AllOf(HasSubstr("within 30s"), HasSubstr(absl::StrCat("rank 1 ", what))));
  }
}

TEST(GroupProtocolSetUpTest, ABackendThatCannotConnectFailsTheGenerationForAll) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToConnecting();
  driver.Take(driver.protocol.OnConnected(driver.now, absl::InternalError("no device")));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  EXPECT_TRUE(driver.Did<action::WriteRecord>()) << "this rank's own error is a cause at once";
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.cause, driver.protocol.cause());
  EXPECT_EQ(CauseOf(driver), "rank 1 could not connect 'train/1': no device");
}

TEST(GroupProtocolSetUpTest, APeerThatCannotBeReachedIsASuspicionUntilTheWindowEnds) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToConnecting();
  driver.Take(
      driver.protocol.OnConnected(driver.now, absl::UnavailableError("lost contact with rank 0")));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  EXPECT_FALSE(driver.Did<action::WriteRecord>())
      << "rank 0's own error is a better cause, if there is one";
  driver.Sleep(ProtocolDriver::kWindow);
  driver.AnswerWrite();
  EXPECT_EQ(CauseOf(driver), "rank 1 could not connect 'train/1': lost contact with rank 0");
}

TEST(GroupProtocolSetUpTest, AnExpiredDeadlineOfTheBackendIsACauseAtOnce) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToConnecting();
  driver.Take(driver.protocol.OnConnected(driver.now,
                                          absl::DeadlineExceededError("rank 0 does not answer")));
  EXPECT_TRUE(driver.Did<action::WriteRecord>());
}

TEST(GroupProtocolSetUpTest, APeerThatCouldNotConnectIsEverybodysCause) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToConfirming();
  driver.PeerFails(absl::InternalError("rank 0 could not connect 'train/1': no device"));
  EXPECT_EQ(CauseOf(driver), "rank 0 could not connect 'train/1': no device");
  EXPECT_EQ(driver.The<action::Withdraw>().key, "connected/train/1");
  EXPECT_FALSE(driver.Did<action::WriteRecord>()) << "the first cause stays";
}

TEST(GroupProtocolSetUpTest, AConfirmationThatAPeerWithdrewWaitsForThePeersCause) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToConfirming();
  driver.Take(
      driver.protocol.OnAllConnected(driver.now, absl::AbortedError("rank 0 withdrew: no device")));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  EXPECT_FALSE(driver.Did<action::CauseResolved>());
  driver.PeerFails(absl::InternalError("no device"));
  EXPECT_EQ(driver.The<action::CauseResolved>().cause, absl::InternalError("no device"));
}

// --- giving up while the ranks meet

TEST(GroupProtocolSetUpTest, AnOwnerWhoClosesDuringTheMeetingWithdrawsAndEndsWithTheAnswer) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToRendezvous();
  driver.Take(driver.protocol.Close(driver.now, ProtocolDriver::kClose, 0));
  EXPECT_EQ(driver.The<action::Withdraw>().key, "meet/train");
  driver.Take(driver.protocol.OnReleased());
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  driver.Take(driver.protocol.OnMet(driver.now, absl::AbortedError("rank 1 withdrew: ...")));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
  EXPECT_EQ(driver.protocol.cause(),
            absl::CancelledError("rank 1 closed 'train' during its set-up"));
  EXPECT_FALSE(driver.pending_write.has_value());
}

// The others may have met before the withdrawal came: without the news they would wait for this
// rank until setup_timeout.
TEST(GroupProtocolSetUpTest, WhoGivesUpJustAfterAllHaveMetTellsThemWhy) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToRendezvous();
  driver.Take(driver.protocol.Fail(driver.now, absl::CancelledError("the user gave up"),
                                   Certainty::kCause));
  driver.Take(driver.protocol.OnReleased());
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));
  EXPECT_FALSE(driver.Did<action::Connect>());
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.generation, 1);
  EXPECT_EQ(driver.record.cause, absl::CancelledError("the user gave up"));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
}

// The simulator found it: the new process of rank 0 was blamed for the end of the one before.
TEST(GroupProtocolSetUpTest, WhoGivesUpForOldNewsBlamesNotTheProcessThatIsHereNow) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToRendezvous();
  driver.Session(0, SessionRecord::Liveness::kLost, /*incarnation=*/99, "killed by signal 9");
  ASSERT_EQ(driver.protocol.state(), GroupState::kAborting);
  driver.Take(driver.protocol.OnReleased());
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));  // rank 0 is 100 now
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.cause,
            absl::UnavailableError(
                "'train/1' was given up by rank 1, which did not know yet that another process had "
                "taken the place of rank 0: rank 0 (host b, pid 812) was lost: killed by signal "
                "9"));
  EXPECT_EQ(driver.record.RankAtFault(), std::nullopt);
}

// The same, where the old process left in good order and said that it ends.
TEST(GroupProtocolSetUpTest, WhoGivesUpForAnOldExitBlamesNotTheProcessThatIsHereNow) {
  const char* const said = "rank 0 (host b, pid 812) exited while its groups were alive";
  ProtocolDriver driver(/*rank=*/1);
  driver.ToRendezvous();
  driver.Session(0, SessionRecord::Liveness::kLeft, /*incarnation=*/99, said);
  ASSERT_EQ(driver.protocol.state(), GroupState::kAborting);
  driver.Take(driver.protocol.OnReleased());
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));  // rank 0 is 100 now
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.cause,
            absl::UnavailableError(absl::StrCat(
                "'train/1' was given up by rank 1, which did not know yet that another process had "
                "taken the place of rank 0: ",
                said)));
  EXPECT_EQ(driver.record.RankAtFault(), std::nullopt);
  EXPECT_FALSE(driver.record.BlamesAnEnd());
}

// A process that met, and then ended.
TEST(GroupProtocolSetUpTest, WhoGivesUpForTheExitOfAPeerThatMetBlamesIt) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToRendezvous();
  driver.Session(0, SessionRecord::Liveness::kLeft, /*incarnation=*/100,
                 "rank 0 (host b, pid 812) exited while its groups were alive");
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.RankAtFault(), 0) << driver.record.cause;
  EXPECT_TRUE(driver.record.BlamesAnEnd());
}

TEST(GroupProtocolSetUpTest, WhoGivesUpForAPeerThatMetAndDiedSaysSo) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToRendezvous();
  driver.Lose(0);
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.RankAtFault(), 0) << driver.record.cause;
}

TEST(GroupProtocolSetUpTest, WhoGivesUpIsNotHeldByAStoreThatDoesNotAnswer) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToRendezvous();
  driver.Take(driver.protocol.Fail(driver.now, absl::CancelledError("the user gave up"),
                                   Certainty::kCause));
  driver.Take(driver.protocol.OnReleased());
  driver.Sleep(ProtocolDriver::kClose + ProtocolDriver::kWindow);
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
  EXPECT_EQ(driver.protocol.cause(), absl::CancelledError("the user gave up"));
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));
  EXPECT_TRUE(driver.actions.empty());
}

TEST(GroupProtocolSetUpTest, AGroupThatWasClosedOrAbortedBeforeItsStartNeverStarts) {
  ProtocolDriver closed;
  closed.Take(closed.protocol.Close(closed.now, ProtocolDriver::kClose, 0));
  EXPECT_EQ(closed.protocol.state(), GroupState::kDestroyed);
  closed.Take(closed.protocol.Start(closed.now));
  EXPECT_TRUE(closed.actions.empty());

  ProtocolDriver aborted;
  aborted.Take(aborted.protocol.Fail(aborted.now, absl::CancelledError("no"), Certainty::kCause));
  aborted.Take(aborted.protocol.Start(aborted.now));
  EXPECT_FALSE(aborted.Did<action::Meet>());
  aborted.Take(aborted.protocol.OnReleased());
  EXPECT_EQ(aborted.protocol.state(), GroupState::kAborted);
}

// --- other lives of the same name

TEST(GroupProtocolSetUpTest, ARankThatSleptThroughANewGenerationLeavesTheOldOne) {
  ProtocolDriver driver;
  driver.ToConfirming();
  GroupRecord later = driver.record;
  later.generation = 2;
  driver.PeerWrites(later);
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  EXPECT_THAT(CauseOf(driver), HasSubstr("'train/1' was replaced by generation 2"));
  EXPECT_FALSE(driver.pending_write.has_value()) << "it must not write over the living generation";
}

// Should a generation ever be given out twice, the incarnations tell the lives apart.
TEST(GroupProtocolSetUpTest, ARecordOfOtherMembersIsNotTakenForOurs) {
  ProtocolDriver driver(/*rank=*/1);
  GroupRecord other;
  other.generation = 1;
  other.incarnations = {7, 8};
  driver.ToRendezvous();
  driver.PeerWrites(other);
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  EXPECT_FALSE(driver.Did<action::Connect>());
  EXPECT_FALSE(driver.pending_write.has_value());
  EXPECT_EQ(driver.protocol.cause().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace muster

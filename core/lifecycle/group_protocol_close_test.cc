// GroupProtocol from ready to destroyed: closes, and proposals to give the name free.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/lifecycle/group_protocol.h"
#include "muster/core/lifecycle/protocol_driver.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kClose = ProtocolDriver::kClose;

std::string CauseOf(const ProtocolDriver& driver) {
  return std::string(driver.protocol.cause().message());
}

TEST(GroupProtocolCloseTest, TheOwnerDrainsTellsAndVotesAndFinalizes) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Close(driver.now, kClose, 41));
  EXPECT_EQ(driver.The<action::Drain>().sequence, 41);
  EXPECT_EQ(driver.The<action::Drain>().closed_by, "rank 0 closed after #41");
  EXPECT_EQ(driver.The<action::WriteRecord>().record.intent->sequence, 41);
  EXPECT_EQ(driver.The<action::WriteRecord>().record.intent->number, 1);
  driver.AnswerWrite();
  EXPECT_FALSE(driver.Did<action::Vote>());
  driver.Take(driver.protocol.OnDrained(41));
  EXPECT_EQ(driver.The<action::Vote>().key, "close/train/1/1");
  EXPECT_EQ(CloseVote::Decode(driver.The<action::Vote>().value)->sequence, 41);
  driver.Take(driver.protocol.OnVotes(driver.now, driver.Votes({"", ""})));
  EXPECT_TRUE(driver.Did<action::Finalize>());
  EXPECT_EQ(driver.protocol.state(), GroupState::kClosing);
  driver.Take(driver.protocol.OnFinalized(driver.now, absl::OkStatus()));
  driver.Take(driver.protocol.OnReleased());
  EXPECT_EQ(driver.protocol.state(), GroupState::kDestroyed);
  EXPECT_TRUE(driver.protocol.cause().ok());
  EXPECT_EQ(driver.wake_at, absl::InfiniteFuture());
}

TEST(GroupProtocolCloseTest, AVoteWaitsForTheIntentEvenWhenTheWorkIsDoneBefore) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Close(driver.now, kClose, 7));
  driver.Take(driver.protocol.OnDrained(7));
  EXPECT_FALSE(driver.Did<action::Vote>());
  driver.AnswerWrite();
  EXPECT_TRUE(driver.Did<action::Vote>());
}

TEST(GroupProtocolCloseTest, APeerThatClosesMakesThisRankDrainAndVoteWithoutItsOwner) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.PeerIntends(CloseIntent::Kind::kClose, 1, 41);
  EXPECT_EQ(driver.protocol.state(), GroupState::kDraining);
  EXPECT_EQ(driver.The<action::Drain>().sequence, 41);
  EXPECT_EQ(driver.The<action::Drain>().closed_by, "rank 1 closed after #41");
  EXPECT_FALSE(driver.pending_write.has_value());
  driver.Take(driver.protocol.OnDrained(41));
  EXPECT_TRUE(driver.Did<action::Vote>());
}

TEST(GroupProtocolCloseTest, BothCloseAtOnceAndTheFirstIntentWritten) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Close(driver.now, kClose, 41));
  driver.PeerIntends(CloseIntent::Kind::kClose, 1, 41);  // it was faster
  EXPECT_EQ(driver.The<action::Drain>().closed_by, "rank 1 closed after #41");
  driver.AnswerWrite();  // ours is refused
  EXPECT_FALSE(driver.pending_write.has_value()) << "one intent is enough";
  driver.Take(driver.protocol.OnDrained(41));
  EXPECT_EQ(driver.The<action::Vote>().key, "close/train/1/1");
}

TEST(GroupProtocolCloseTest, ADrainThatWasReportedForTheOwnNumberIsNotTakenForThePeers) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Close(driver.now, kClose, 41));
  driver.Take(driver.protocol.OnDrained(41));
  driver.PeerIntends(CloseIntent::Kind::kClose, 1, 40);
  EXPECT_FALSE(driver.Did<action::Vote>());
  EXPECT_EQ(driver.The<action::Drain>().sequence, 40);
  driver.Take(driver.protocol.OnDrained(41));
  EXPECT_TRUE(driver.Did<action::Vote>());
}

// L3: it has said "closed after #41" to its callers, so it cannot take part in #42 that the peer
// waits for.
TEST(GroupProtocolCloseTest, CloseAtDifferentNumbersThatCannotBothFinishFailsAtOnceAndSaysSo) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Close(driver.now, kClose, 41));
  driver.PeerIntends(CloseIntent::Kind::kClose, 1, 43);
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  driver.AnswerWrite();  // the intent, refused
  driver.AnswerWrite();  // the cause
  EXPECT_EQ(driver.record.cause.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CauseOf(driver),
            "rank 1 closed after #43 and rank 0 closed after #41 of 'train/1': the ranks did not "
            "do the same work");
}

TEST(GroupProtocolCloseTest, AnOwnerThatClosesBeforeTheNumberOfItsPeerFailsAtOnceToo) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.PeerIntends(CloseIntent::Kind::kClose, 1, 43);
  driver.Take(driver.protocol.Close(driver.now, kClose, 41));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  EXPECT_THAT(std::string(driver.The<action::AbortBackend>().cause.message()),
              HasSubstr("rank 1 closed after #43 and rank 0 closed after #41"));
}

TEST(GroupProtocolCloseTest, AnOwnerThatReachesTheNumberOfItsPeerMayCloseToo) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.PeerIntends(CloseIntent::Kind::kClose, 1, 43);
  driver.Take(driver.protocol.Close(driver.now, kClose, 43));
  EXPECT_EQ(driver.protocol.state(), GroupState::kDraining);
  EXPECT_FALSE(driver.Did<action::Drain>());
}

// A collective may end on this rank though the one that closes never came to it: a broadcast on its
// root. Whoever's intent is written first, the two closes fail of it, on both ranks.
TEST(GroupProtocolCloseTest, ARankThatDidMoreThanTheOneThatClosesFailsTheCloseOnBoth) {
  for (int rank = 0; rank < 2; ++rank) {
    ProtocolDriver driver(rank);
    driver.ToReady();
    driver.PeerIntends(CloseIntent::Kind::kClose, 1, 40);
    const int64_t finished = rank == 0 ? 41 : 40;
    driver.Take(driver.protocol.Close(driver.now, kClose, finished));
    driver.Take(driver.protocol.OnDrained(finished));
    ASSERT_EQ(CloseVote::Decode(driver.The<action::Vote>().value)->sequence, finished);
    driver.Take(driver.protocol.OnVotes(
        driver.now, driver.Values({CloseVote{41, ""}.Encode(), CloseVote{40, ""}.Encode()})));
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
    driver.AnswerWrite();
    EXPECT_EQ(driver.protocol.cause().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(CauseOf(driver),
              "rank 1 closed after #40 and rank 0 had finished #41 of 'train/1': the ranks did not "
              "do the same work");
  }
}

// L5
TEST(GroupProtocolCloseTest, CloseAgainChangesNothingButMayShortenTheTime) {
  ProtocolDriver driver;
  driver.ToDraining();
  driver.Take(driver.protocol.Close(driver.now, absl::Seconds(60), 7));
  EXPECT_TRUE(driver.actions.empty());
  driver.Take(driver.protocol.Close(driver.now, absl::Seconds(1), 7));
  EXPECT_EQ(driver.wake_at, driver.now + absl::Seconds(1));
  EXPECT_EQ(driver.actions.size(), 1);
}

TEST(GroupProtocolCloseTest, APeerWithMorePatienceThanUsualGivesItToTheOthers) {
  ProtocolDriver owner;
  owner.ToReady();
  owner.Take(owner.protocol.Close(owner.now, 10 * kClose, 7));
  EXPECT_EQ(owner.The<action::WriteRecord>().record.intent->timeout, 10 * kClose);

  ProtocolDriver driver;
  driver.ToReady();
  driver.PeerIntends(CloseIntent::Kind::kClose, 1, 7, "", 10 * kClose);
  driver.Sleep(10 * kClose - absl::Milliseconds(1));
  EXPECT_EQ(driver.protocol.state(), GroupState::kDraining);
  driver.Sleep(absl::Milliseconds(1));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
}

TEST(GroupProtocolCloseTest, APeersPatienceIsNotShorterThanUsualNorDoesItHoldWhoClosesItself) {
  ProtocolDriver by_peer;
  by_peer.ToReady();
  by_peer.PeerIntends(CloseIntent::Kind::kClose, 1, 7, "", kClose / 10);
  EXPECT_EQ(by_peer.wake_at, by_peer.now + kClose);

  ProtocolDriver own;
  own.ToDraining();
  own.PeerIntends(CloseIntent::Kind::kClose, 1, 7, "", 10 * kClose);
  EXPECT_EQ(own.wake_at, own.now + kClose) << "its caller was promised that";
}

TEST(GroupProtocolCloseTest, CloseInEveryLaterStateIsIgnored) {
  for (auto way : {&ProtocolDriver::ToClosing, &ProtocolDriver::ToDestroyed,
                   &ProtocolDriver::ToAborting, &ProtocolDriver::ToAborted}) {
    ProtocolDriver driver;
    (driver.*way)();
    const GroupState before = driver.protocol.state();
    driver.Take(driver.protocol.Close(driver.now, kClose, 7));
    EXPECT_TRUE(driver.actions.empty());
    EXPECT_EQ(driver.protocol.state(), before);
  }
}

TEST(GroupProtocolCloseTest, NewsOfACloseDuringTheSetUpWaitsUntilAllAreConnected) {
  ProtocolDriver driver;
  driver.ToConfirming();
  driver.PeerIntends(CloseIntent::Kind::kClose, 1, 0);
  EXPECT_EQ(driver.protocol.state(), GroupState::kConnecting);
  EXPECT_TRUE(driver.actions.empty());
  driver.Take(driver.protocol.OnAllConnected(driver.now, driver.Values({"", ""})));
  EXPECT_EQ(driver.protocol.state(), GroupState::kDraining);
  EXPECT_TRUE(driver.Did<action::Drain>());
}

TEST(GroupProtocolCloseTest, AnOwnerWhoClosesDuringTheSetUpFailsItForAll) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToConnecting();
  driver.Take(driver.protocol.Close(driver.now, kClose, 0));
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.cause, absl::CancelledError("rank 1 closed 'train/1' during its set-up"));
}

TEST(GroupProtocolCloseTest, ALostRaceIsTriedAgainWithTheNextNumber) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Close(driver.now, kClose, 7));
  driver.record.incarnations = {100, 101};
  driver.record_revision = ++driver.revision;  // changed, though not in a way that matters here
  driver.AnswerWrite();
  ASSERT_TRUE(driver.pending_write.has_value());
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.intent->number, 1);
  driver.Take(driver.protocol.OnDrained(7));
  EXPECT_TRUE(driver.Did<action::Vote>());
}

TEST(GroupProtocolCloseTest, ACloseThatDoesNotEndInTimeBecomesAnAbortThatSaysWhoWasLate) {
  const struct {
    void (ProtocolDriver::*way)();
    const char* message;
  } kCases[] = {
      {&ProtocolDriver::ToDraining, "this rank had not finished its work (seen by rank 0)"},
      {&ProtocolDriver::ToVoting, "other ranks had not finished their work (seen by rank 0)"},
      {&ProtocolDriver::ToClosing, "its backend did not finish (seen by rank 0)"},
  };
  for (const auto& test : kCases) {
    ProtocolDriver driver;
    (driver.*test.way)();
    driver.Wake();
    EXPECT_EQ(driver.now, absl::FromUnixSeconds(1000) + kClose);
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
    EXPECT_EQ(driver.The<action::AbortBackend>().cause.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(driver.The<action::AbortBackend>().cause.message()),
                HasSubstr(test.message));
  }
}

TEST(GroupProtocolCloseTest, ABackendThatDoesNotFinalizeCleanlyIsThisRanksFailureAlone) {
  ProtocolDriver driver;
  driver.ToClosing();
  driver.Take(driver.protocol.OnFinalized(driver.now, absl::InternalError("socket")));
  EXPECT_TRUE(driver.Did<action::AbortBackend>());
  EXPECT_FALSE(driver.Did<action::WriteRecord>());
  EXPECT_EQ(CauseOf(driver), "'train/1' was not closed cleanly: socket");
  driver.Take(driver.protocol.OnReleased());
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
}

TEST(GroupProtocolCloseTest, AConnectionThatBreaksInFinalizeIsASuspicionUntilItIsKnownWhoIsGone) {
  for (const bool known_before : {false, true}) {
    ProtocolDriver driver(/*rank=*/0, /*size=*/3);
    driver.ToClosing();
    if (known_before) {
      driver.Lose(1);
      EXPECT_EQ(driver.protocol.state(), GroupState::kClosing) << "it may have closed before";
    }
    driver.Take(driver.protocol.OnFinalized(driver.now,
                                            absl::UnavailableError("lost contact with rank 2")));
    EXPECT_TRUE(driver.Did<action::AbortBackend>());
    EXPECT_EQ(driver.Did<action::CauseResolved>(), known_before);
    if (!known_before) {
      driver.Session(2, SessionRecord::Liveness::kLeft, 102);  // in good order: not to blame
      EXPECT_FALSE(driver.Did<action::CauseResolved>());
      driver.Lose(1);
    }
    EXPECT_FALSE(driver.Did<action::WriteRecord>()) << "it is this rank's failure alone";
    EXPECT_THAT(CauseOf(driver),
                ::testing::ContainsRegex(
                    "^'train/1' was not closed cleanly: rank 1 .*was lost: killed by signal 9$"));
  }
}

TEST(GroupProtocolCloseTest, ASuspicionInFinalizeThatNobodyExplainsIsWhatItIs) {
  ProtocolDriver driver;
  driver.ToClosing();
  driver.Take(
      driver.protocol.OnFinalized(driver.now, absl::UnavailableError("lost contact with rank 1")));
  EXPECT_FALSE(driver.Did<action::CauseResolved>());
  driver.Sleep(ProtocolDriver::kWindow);
  EXPECT_FALSE(driver.Did<action::WriteRecord>());
  EXPECT_EQ(CauseOf(driver), "'train/1' was not closed cleanly: lost contact with rank 1");
}

TEST(GroupProtocolCloseTest, AFinalizeThatWaitsForARankThatIsGoneNamesIt) {
  for (const bool backend_answers : {false, true}) {
    ProtocolDriver driver;
    driver.ToClosing();
    driver.Session(1, SessionRecord::Liveness::kLost, 101, "no heartbeat for 2s");
    if (backend_answers) {
      driver.Take(driver.protocol.OnFinalized(driver.now, absl::DeadlineExceededError("late")));
    } else {
      driver.Wake();
    }
    EXPECT_THAT(CauseOf(driver),
                ::testing::ContainsRegex("rank 1 .*was lost: no heartbeat for 2s"));
  }
}

TEST(GroupProtocolCloseTest, AfterTheAgreementPeersAndTheStoreMayGo) {
  ProtocolDriver driver;
  driver.ToClosing();
  driver.Lose(1);
  driver.Take(driver.protocol.OnStoreLost(driver.now, absl::UnavailableError("gone")));
  driver.PeerFails(absl::InternalError("late"));
  EXPECT_EQ(driver.protocol.state(), GroupState::kClosing);
  driver.Take(driver.protocol.OnFinalized(driver.now, absl::OkStatus()));
  driver.Take(driver.protocol.OnReleased());
  EXPECT_EQ(driver.protocol.state(), GroupState::kDestroyed);
}

TEST(GroupProtocolCloseTest, VotesThatCannotBeReadOrFailEndInAnAbort) {
  ProtocolDriver unreadable;
  unreadable.ToVoting();
  unreadable.Take(unreadable.protocol.OnVotes(unreadable.now, unreadable.Values({"{", ""})));
  EXPECT_EQ(unreadable.The<action::AbortBackend>().cause.code(), absl::StatusCode::kDataLoss);

  ProtocolDriver late;
  late.ToVoting();
  late.Take(late.protocol.OnVotes(late.now, absl::DeadlineExceededError("rank 1 did not come")));
  late.AnswerWrite();
  EXPECT_EQ(CauseOf(late), "the ranks of 'train/1' did not agree to close: rank 1 did not come");

  ProtocolDriver withdrawn;
  withdrawn.ToVoting();
  withdrawn.Take(
      withdrawn.protocol.OnVotes(withdrawn.now, absl::AbortedError("rank 1 withdrew: boom")));
  EXPECT_FALSE(withdrawn.Did<action::CauseResolved>())
      << "rank 1 has a cause of its own, and it is on its way";
}

// --- replacement

TEST(GroupProtocolReplaceTest, AProposalThatNobodyRefusesClosesTheGroupEverywhere) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Propose(driver.now, "backend: gloo here, reference wanted"));
  EXPECT_FALSE(driver.protocol.voting());
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.intent->kind, CloseIntent::Kind::kReplace);
  EXPECT_TRUE(driver.protocol.voting());
  EXPECT_TRUE(driver.Did<action::AskHolders>());
  driver.Take(driver.protocol.OnHolders(""));
  EXPECT_EQ(driver.The<action::Vote>().key, "close/train/1/1");
  EXPECT_EQ(driver.protocol.state(), GroupState::kReady);
  driver.Take(driver.protocol.OnVotes(driver.now, driver.Votes({"", ""})));
  EXPECT_EQ(driver.protocol.state(), GroupState::kClosing);
  EXPECT_TRUE(driver.Did<action::Finalize>());
}

TEST(GroupProtocolReplaceTest, AProposalOfAPeerAsksForTheHoldersHere) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.PeerIntends(CloseIntent::Kind::kReplace, 1, 0, "backend");
  EXPECT_TRUE(driver.Did<action::AskHolders>());
  EXPECT_EQ(driver.protocol.state(), GroupState::kReady) << "work goes on until the vote is over";
  driver.Take(driver.protocol.OnHolders("trainer.cc:88"));
  EXPECT_EQ(CloseVote::Decode(driver.The<action::Vote>().value)->holders, "trainer.cc:88");
}

TEST(GroupProtocolReplaceTest, ARefusalNamesTheHoldersAndTheDifferenceAndTheGroupLivesOn) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Propose(driver.now, "backend: gloo here, reference wanted"));
  driver.AnswerWrite();
  driver.Take(driver.protocol.OnHolders(""));
  driver.Take(driver.protocol.OnVotes(driver.now, driver.Votes({"", "trainer.cc:88"})));
  EXPECT_EQ(driver.The<action::ProposalRefused>().why.code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(driver.The<action::ProposalRefused>().why.message()),
              AllOf(HasSubstr("'train/1'"), HasSubstr("rank 1 (trainer.cc:88)"),
                    HasSubstr("rank 0 wants another one"),
                    HasSubstr("backend: gloo here, reference wanted")));
  EXPECT_EQ(driver.protocol.state(), GroupState::kReady);
  EXPECT_FALSE(driver.protocol.voting());
  EXPECT_EQ(driver.wake_at, absl::InfiniteFuture());

  // The next proposal has votes of its own.
  driver.Take(driver.protocol.Propose(driver.now, "backend: gloo here, reference wanted"));
  driver.AnswerWrite();
  driver.Take(driver.protocol.OnHolders(""));
  EXPECT_EQ(driver.The<action::Vote>().key, "close/train/1/2");
}

TEST(GroupProtocolReplaceTest, ACloseDuringAVoteIsToldWhenTheVoteIsOver) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.PeerIntends(CloseIntent::Kind::kReplace, 1, 0, "backend");
  driver.Take(driver.protocol.OnHolders(""));
  driver.Take(driver.protocol.Close(driver.now, kClose, 7));
  EXPECT_EQ(driver.protocol.state(), GroupState::kDraining) << "here it is closed at once";
  EXPECT_FALSE(driver.pending_write.has_value());
  driver.Take(driver.protocol.OnVotes(driver.now, driver.Votes({"", "trainer.cc:88"})));
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.intent->kind, CloseIntent::Kind::kClose);
  EXPECT_EQ(driver.record.intent->number, 2);
  driver.Take(driver.protocol.OnDrained(7));
  EXPECT_EQ(driver.The<action::Vote>().key, "close/train/1/2");
}

TEST(GroupProtocolReplaceTest, ACloseBetweenTheQuestionAndItsAnswerStillVotes) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.PeerIntends(CloseIntent::Kind::kReplace, 1, 0, "backend");
  driver.Take(driver.protocol.Close(driver.now, kClose, 7));
  driver.Take(driver.protocol.OnHolders("trainer.cc:88"));  // who has closed meanwhile
  EXPECT_FALSE(driver.Did<action::Vote>());
  driver.Take(driver.protocol.OnDrained(7));
  EXPECT_EQ(CloseVote::Decode(driver.The<action::Vote>().value)->holders, "");
  driver.Take(driver.protocol.OnVotes(driver.now, driver.Votes({"", ""})));
  EXPECT_EQ(driver.protocol.state(), GroupState::kClosing);
  EXPECT_FALSE(driver.pending_write.has_value()) << "it closes already";
}

TEST(GroupProtocolReplaceTest, ACloseThatWonTheRaceEndsTheProposal) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Propose(driver.now, "backend"));
  driver.PeerIntends(CloseIntent::Kind::kClose, 1, 7);
  driver.AnswerWrite();
  EXPECT_FALSE(driver.pending_write.has_value());
  EXPECT_EQ(driver.protocol.state(), GroupState::kDraining);
}

TEST(GroupProtocolReplaceTest, AProposalThatIsNotAnsweredInTimeBecomesAnAbort) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Propose(driver.now, "backend"));
  driver.Wake();
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  EXPECT_THAT(std::string(driver.The<action::AbortBackend>().cause.message()),
              HasSubstr("was not answered in time"));
}

// Found by the simulator: the bound of the vote had passed, and the close that followed had none.
TEST(GroupProtocolReplaceTest, AVoteThatDoesNotEndInTimeBecomesAnAbort) {
  for (bool answered : {false, true}) {
    ProtocolDriver driver;
    driver.ToReady();
    driver.PeerIntends(CloseIntent::Kind::kReplace, 1, 0, "backend");
    if (answered) driver.Take(driver.protocol.OnHolders(""));
    driver.Wake();
    EXPECT_EQ(driver.now, absl::FromUnixSeconds(1000) + kClose);
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  }
}

TEST(GroupProtocolReplaceTest, TheCloseAfterAVoteHasABound) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.PeerIntends(CloseIntent::Kind::kReplace, 1, 0, "backend");
  driver.Take(driver.protocol.OnHolders(""));
  driver.now += kClose / 2;
  driver.Take(driver.protocol.OnVotes(driver.now, driver.Votes({"", ""})));
  // The backend gets a little less: it knows for whom it waits.
  EXPECT_EQ(driver.The<action::Finalize>().deadline, driver.now + kClose - ProtocolDriver::kWindow);
  EXPECT_EQ(driver.wake_at, driver.now + kClose);
}

TEST(GroupProtocolReplaceTest, AProposalOutsideReadyIsIgnored) {
  for (auto way :
       {&ProtocolDriver::ToRendezvous, &ProtocolDriver::ToConfirming, &ProtocolDriver::ToDraining,
        &ProtocolDriver::ToClosing, &ProtocolDriver::ToAborted}) {
    ProtocolDriver driver(/*rank=*/1);
    (driver.*way)();
    driver.Take(driver.protocol.Propose(driver.now, "backend"));
    EXPECT_TRUE(driver.actions.empty());
  }
}

}  // namespace
}  // namespace muster

// GroupProtocol when something fails: causes, suspicions, sessions, the store, and late news.
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/lifecycle/group_protocol.h"
#include "muster/core/lifecycle/protocol_driver.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

using Way = void (ProtocolDriver::*)();

// States in which ranks share a generation and have not agreed to close: a failure is everybody's.
struct SharedState {
  const char* name;
  Way way;
};
void Connecting(ProtocolDriver& driver) { driver.ToConnecting(); }

const std::vector<SharedState>& SharedStates() {
  static const auto& states = *new std::vector<SharedState>{
      {"confirming", &ProtocolDriver::ToConfirming},
      {"ready", &ProtocolDriver::ToReady},
      {"draining", &ProtocolDriver::ToDraining},
      {"voting", &ProtocolDriver::ToVoting},
  };
  return states;
}

const absl::Status& Boom() {
  static const absl::Status& status = *new absl::Status(absl::StatusCode::kInternal, "boom");
  return status;
}

TEST(GroupProtocolFailureTest, ACauseIsWrittenAtOnceInEveryStateAndTheBackendIsAborted) {
  for (const SharedState& state : SharedStates()) {
    SCOPED_TRACE(state.name);
    ProtocolDriver driver;
    (driver.*state.way)();
    driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
    EXPECT_EQ(driver.The<action::AbortBackend>().cause, Boom());
    EXPECT_EQ(driver.The<action::WriteRecord>().record.cause, Boom());
    EXPECT_FALSE(driver.Did<action::CauseResolved>()) << "another rank's may be there already";
    driver.AnswerWrite();
    EXPECT_EQ(driver.The<action::CauseResolved>().cause, Boom());
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
    driver.Take(driver.protocol.OnReleased());
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
    EXPECT_EQ(driver.protocol.cause(), Boom());
    EXPECT_EQ(driver.wake_at, absl::InfiniteFuture());
  }
}

// What the rank that fails with `why` knows in the end, and what rank 1 does that learns of it.
bool OwnErrorHere(const absl::Status& why, Certainty certainty) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, why, certainty));
  if (certainty == Certainty::kSuspicion) driver.Wake();  // nobody knew better
  driver.AnswerWrite();
  return driver.The<action::CauseResolved>().own;
}
bool OwnErrorThere(const absl::Status& why) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToReady();
  driver.PeerFails(why);
  return driver.The<action::CauseResolved>().own;
}

// For a launcher that looks for the reason: whoever was only told must not give it as its own.
TEST(GroupProtocolFailureTest, ACauseIsTheOwnErrorOfTheRankThatItBlamesOrElseOfWhoFoundIt) {
  const absl::Status rank_zeros = absl::InternalError("rank 0: boom");
  EXPECT_TRUE(OwnErrorHere(rank_zeros, Certainty::kCause));
  EXPECT_FALSE(OwnErrorThere(rank_zeros));

  const absl::Status nobodys = absl::DeadlineExceededError("barrier #1 did not finish on rank 0");
  EXPECT_TRUE(OwnErrorHere(nobodys, Certainty::kCause));
  EXPECT_FALSE(OwnErrorThere(nobodys));

  const absl::Status rank_ones = absl::UnavailableError("rank 1 (host b, pid 812) was lost: gone");
  EXPECT_FALSE(OwnErrorHere(rank_ones, Certainty::kCause));
  EXPECT_TRUE(OwnErrorThere(rank_ones)) << "who is declared dead and lives has it as its own";

  const absl::Status suspicion =
      absl::UnavailableError("lost contact with rank 1 (seen by rank 0)");
  EXPECT_FALSE(OwnErrorHere(suspicion, Certainty::kSuspicion));
  EXPECT_FALSE(OwnErrorThere(suspicion));
}

// Peers take a cut connection for a suspicion: the cause must be on its way before.
TEST(GroupProtocolFailureTest, TheCauseIsWrittenBeforeConnectionsAreCut) {
  for (const SharedState& state : SharedStates()) {
    SCOPED_TRACE(state.name);
    ProtocolDriver driver;
    (driver.*state.way)();
    driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
    const auto at = [&driver](auto kind) {
      for (size_t i = 0; i < driver.actions.size(); ++i) {
        if (std::holds_alternative<decltype(kind)>(driver.actions[i])) return i;
      }
      ADD_FAILURE() << "not done at all";
      return driver.actions.size();
    };
    EXPECT_LT(at(action::WriteRecord()), at(action::AbortBackend()));
  }
}

TEST(GroupProtocolFailureTest, WhileConnectingACauseIsWrittenByWhicheverRankHasIt) {
  ProtocolDriver driver(/*rank=*/1);
  Connecting(driver);
  driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
  EXPECT_EQ(driver.The<action::AbortBackend>().cause, Boom()) << "cancels the backend's Connect";
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.cause, Boom());
  driver.Take(driver.protocol.OnConnected(driver.now, absl::CancelledError("boom")));
  EXPECT_TRUE(driver.actions.empty());
}

// Rank 0's record of the new generation may not be there yet.
TEST(GroupProtocolFailureTest, ACauseIsWrittenEvenWhereTheRecordDoesNotKnowTheGenerationYet) {
  ProtocolDriver driver(/*rank=*/1);
  driver.ToRendezvous();
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));
  driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.generation, 1);
  EXPECT_EQ(driver.record.cause, Boom());
  EXPECT_EQ(driver.record.incarnations, (std::vector<uint64_t>{100, 101}));
}

TEST(GroupProtocolFailureTest, AFailureDuringTheFirstWriteOfRankZeroIsNotLost) {
  ProtocolDriver driver(/*rank=*/0);
  driver.ToRendezvous();
  driver.Take(driver.protocol.OnMet(driver.now, driver.Introductions()));
  driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
  EXPECT_FALSE(driver.Did<action::WriteRecord>()) << "one at a time";
  driver.AnswerWrite();
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.cause, Boom());
}

TEST(GroupProtocolFailureTest, APeersCauseIsTakenInEveryState) {
  for (const SharedState& state : SharedStates()) {
    SCOPED_TRACE(state.name);
    ProtocolDriver driver;
    (driver.*state.way)();
    driver.PeerFails(absl::InternalError("theirs"));
    EXPECT_EQ(driver.The<action::AbortBackend>().cause, absl::InternalError("theirs"));
    EXPECT_EQ(driver.The<action::CauseResolved>().cause, absl::InternalError("theirs"));
    EXPECT_FALSE(driver.pending_write.has_value());
    driver.Take(driver.protocol.OnReleased());
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
  }
}

// L4: the first write is everybody's.
TEST(GroupProtocolFailureTest, TheFirstCauseInTheRecordWinsOverTheOwn) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
  driver.record.cause =
      absl::InternalError("theirs");  // written before ours arrived, and not heard yet
  driver.record_revision = ++driver.revision;
  driver.AnswerWrite();
  EXPECT_EQ(driver.The<action::CauseResolved>().cause, absl::InternalError("theirs"));
  EXPECT_FALSE(driver.pending_write.has_value());
  EXPECT_EQ(driver.protocol.cause(), absl::InternalError("theirs"));
}

TEST(GroupProtocolFailureTest, ARaceLostAgainstANewsThatIsNoCauseIsTriedAgain) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
  CloseIntent intent;
  intent.number = 1;
  intent.rank = 1;
  driver.record.intent = intent;
  driver.record_revision = ++driver.revision;
  driver.AnswerWrite();
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.cause, Boom());
  EXPECT_TRUE(driver.record.intent.has_value());
}

TEST(GroupProtocolFailureTest, AWriteThatFailsIsAFailureThatThePeersAreToldOf) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Close(driver.now, ProtocolDriver::kClose, 7));
  driver.FailWrite(absl::DeadlineExceededError("the store did not answer"));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.cause, driver.protocol.cause());
  EXPECT_THAT(std::string(driver.record.cause.message()),
              HasSubstr("the record of 'train/1' was not written: the store did not answer"));
}

TEST(GroupProtocolFailureTest, AFailureThatCannotBeWrittenIsThisRanksCause) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
  driver.FailWrite(absl::DeadlineExceededError("the store did not answer"));
  EXPECT_FALSE(driver.pending_write.has_value()) << "not for ever";
  EXPECT_EQ(driver.protocol.cause(), Boom());
}

TEST(GroupProtocolFailureTest, ARecordThatCannotBeReadIsAnErrorAndNoCrash) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
  CompareAndSetResult result;
  result.current.revision = 1000;
  result.current.value = "{";
  driver.pending_write.reset();
  driver.Take(driver.protocol.OnRecordWritten(driver.now, result));
  EXPECT_EQ(driver.protocol.cause(), Boom());
}

// --- suspicions

TEST(GroupProtocolSuspicionTest, ASuspicionIsHeldForTheWindowAndThenWrittenAsWhatItIs) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, absl::UnavailableError("lost contact with rank 1"),
                                   Certainty::kSuspicion));
  EXPECT_TRUE(driver.Did<action::AbortBackend>()) << "nothing hangs meanwhile";
  EXPECT_FALSE(driver.Did<action::WriteRecord>());
  EXPECT_EQ(driver.wake_at, driver.now + ProtocolDriver::kWindow);
  driver.Take(driver.protocol.OnReleased());
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  driver.Wake();
  driver.AnswerWrite();
  EXPECT_EQ(driver.record.cause, absl::UnavailableError("lost contact with rank 1"));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
}

TEST(GroupProtocolSuspicionTest, ACauseWithinTheWindowTakesItsPlace) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, absl::UnavailableError("lost contact with rank 1"),
                                   Certainty::kSuspicion));
  driver.Lose(1);
  EXPECT_EQ(driver.The<action::WriteRecord>().record.cause,
            absl::UnavailableError("rank 1 (host b, pid 812) was lost: killed by signal 9"));
  driver.AnswerWrite();
  EXPECT_EQ(driver.protocol.cause(), driver.record.cause);
}

TEST(GroupProtocolSuspicionTest, AnotherSuspicionDoesNotReplaceTheFirstNorProlongTheWindow) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(
      driver.protocol.Fail(driver.now, absl::UnavailableError("first"), Certainty::kSuspicion));
  const absl::Time wake = driver.wake_at;
  driver.now += ProtocolDriver::kWindow / 2;
  driver.Take(
      driver.protocol.Fail(driver.now, absl::UnavailableError("second"), Certainty::kSuspicion));
  EXPECT_EQ(driver.wake_at, wake);
  driver.Wake();
  EXPECT_EQ(driver.The<action::WriteRecord>().record.cause, absl::UnavailableError("first"));
}

TEST(GroupProtocolSuspicionTest, APeersRecordedCauseEndsTheWindow) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, absl::UnavailableError("lost contact"),
                                   Certainty::kSuspicion));
  driver.PeerFails(Boom());
  EXPECT_EQ(driver.The<action::CauseResolved>().cause, Boom());
  EXPECT_FALSE(driver.pending_write.has_value());
}

TEST(GroupProtocolSuspicionTest, ACauseAfterTheFirstCauseChangesNothing) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
  driver.Take(driver.protocol.Fail(driver.now, absl::InternalError("second"), Certainty::kCause));
  EXPECT_TRUE(driver.actions.empty());
  driver.AnswerWrite();
  EXPECT_EQ(driver.protocol.cause(), Boom());
}

// --- sessions

TEST(GroupProtocolSessionTest, ALostPeerIsTheCauseInEveryState) {
  for (const SharedState& state : SharedStates()) {
    SCOPED_TRACE(state.name);
    ProtocolDriver driver;
    (driver.*state.way)();
    driver.Lose(1);
    driver.AnswerWrite();
    EXPECT_EQ(driver.record.cause,
              absl::UnavailableError("rank 1 (host b, pid 812) was lost: killed by signal 9"));
  }
}

TEST(GroupProtocolSessionTest, APeerThatLeftWithoutClosingIsACauseToo) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Session(1, SessionRecord::Liveness::kLeft, 101);
  EXPECT_THAT(std::string(driver.The<action::WriteRecord>().record.cause.message()),
              HasSubstr("rank 1 (host b, pid 812) left"));
}

// Two pools of one process, one after the other: the slower rank sees that the first one left.
TEST(GroupProtocolSessionTest, APeerThatLeftInGoodOrderMayComeBackToTheMeeting) {
  ProtocolDriver driver;
  driver.ToRendezvous();
  driver.Session(1, SessionRecord::Liveness::kLeft, 7);
  EXPECT_TRUE(driver.actions.empty());
  EXPECT_EQ(driver.protocol.state(), GroupState::kRendezvous);
}

// L6: nobody comes again from a process that ends.
TEST(GroupProtocolSessionTest, APeerWhoseProcessEndsInGoodOrderEndsTheMeeting) {
  for (const char* reason :
       {"rank 1 (host b, pid 812) exited while its groups were alive",
        "rank 1 (host b, pid 812) was told to stop by signal 15 (Terminated)"}) {
    ProtocolDriver driver;
    driver.ToRendezvous();
    driver.Session(1, SessionRecord::Liveness::kLeft, 7, reason);
    EXPECT_TRUE(driver.Did<action::Withdraw>());
    driver.Take(driver.protocol.OnReleased());
    driver.Take(driver.protocol.OnMet(driver.now, absl::AbortedError("rank 0 withdrew")));
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
    EXPECT_EQ(driver.protocol.cause(), absl::UnavailableError(reason));
  }
}

TEST(GroupProtocolSessionTest, APeerThatIsGoneEndsTheMeeting) {
  ProtocolDriver driver;
  driver.ToRendezvous();
  driver.Lose(1);
  EXPECT_TRUE(driver.Did<action::Withdraw>());
  driver.Take(driver.protocol.OnReleased());
  driver.Take(driver.protocol.OnMet(driver.now, absl::AbortedError("rank 0 withdrew")));
  EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
  EXPECT_THAT(std::string(driver.protocol.cause().message()), HasSubstr("killed by signal 9"));
}

TEST(GroupProtocolSessionTest, ARestartedPeerIsAFailureOfTheLiveGeneration) {
  for (const SharedState& state : SharedStates()) {
    SCOPED_TRACE(state.name);
    ProtocolDriver driver;
    (driver.*state.way)();
    driver.Session(1, SessionRecord::Liveness::kLive, 999);
    EXPECT_THAT(std::string(driver.The<action::WriteRecord>().record.cause.message()),
                HasSubstr("rank 1 was lost: another process took its place (host b, pid 812)"));
  }
}

TEST(GroupProtocolSessionTest, NewsOfLivePeersOfThisRankAndOfStrangersIsNoFailure) {
  ProtocolDriver driver;
  driver.ToReady();
  driver.Session(1, SessionRecord::Liveness::kLive, 101);
  driver.Session(0, SessionRecord::Liveness::kLost, 100);
  driver.Session(2, SessionRecord::Liveness::kLost, 102);
  driver.Session(-1, SessionRecord::Liveness::kLost, 0);
  EXPECT_EQ(driver.protocol.state(), GroupState::kReady);
  ProtocolDriver meeting;
  meeting.ToRendezvous();
  meeting.Session(1, SessionRecord::Liveness::kLive, 999);
  EXPECT_EQ(meeting.protocol.state(), GroupState::kRendezvous);
}

// --- the store

TEST(GroupProtocolStoreTest, ALostStoreIsTheCauseInEveryStateAndNobodyIsWrittenTo) {
  const absl::Status gone = absl::UnavailableError("the store (rank 0, host a, pid 7) was lost");
  std::vector<SharedState> states = SharedStates();
  states.push_back({"rendezvous", &ProtocolDriver::ToRendezvous});
  for (const SharedState& state : states) {
    SCOPED_TRACE(state.name);
    ProtocolDriver driver;
    (driver.*state.way)();
    driver.Take(driver.protocol.OnStoreLost(driver.now, gone));
    EXPECT_EQ(driver.The<action::CauseResolved>().cause, gone);
    EXPECT_FALSE(driver.Did<action::WriteRecord>());
    EXPECT_FALSE(driver.Did<action::Withdraw>());
    driver.Take(driver.protocol.OnReleased());
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborted);
  }
}

TEST(GroupProtocolStoreTest, ALostStoreDuringAnAbortLeavesTheCauseThatWasKnown) {
  ProtocolDriver certain;
  certain.ToAborting();
  certain.Take(certain.protocol.OnStoreLost(certain.now, absl::UnavailableError("gone")));
  EXPECT_EQ(certain.protocol.cause(), absl::InternalError("boom"));

  ProtocolDriver suspected;
  suspected.ToReady();
  suspected.Take(suspected.protocol.Fail(suspected.now, absl::UnavailableError("lost contact"),
                                         Certainty::kSuspicion));
  suspected.Take(suspected.protocol.OnStoreLost(suspected.now, absl::UnavailableError("gone")));
  EXPECT_EQ(suspected.protocol.cause(), absl::UnavailableError("gone"))
      << "a better explanation than a socket";
}

TEST(GroupProtocolStoreTest, ALostStoreBeforeTheStartIsNotAFailureYet) {
  ProtocolDriver driver;
  driver.Take(driver.protocol.OnStoreLost(driver.now, absl::UnavailableError("gone")));
  EXPECT_EQ(driver.protocol.state(), GroupState::kCreated);
}

// --- late news

TEST(GroupProtocolLateNewsTest, AfterTheEndEverythingIsIgnored) {
  for (Way way : {&ProtocolDriver::ToDestroyed, &ProtocolDriver::ToAborted}) {
    ProtocolDriver driver;
    (driver.*way)();
    const GroupState end = driver.protocol.state();
    const absl::Time now = driver.now;
    GroupRecord next = driver.record;
    next.generation = 2;
    const auto nothing = [&](Actions actions) {
      EXPECT_TRUE(actions.empty());
      EXPECT_EQ(driver.protocol.state(), end);
    };
    nothing(driver.protocol.Start(now));
    nothing(driver.protocol.Close(now, absl::Seconds(1), 9));
    nothing(driver.protocol.Propose(now, "x"));
    nothing(driver.protocol.Fail(now, Boom(), Certainty::kCause));
    nothing(driver.protocol.Fail(now, Boom(), Certainty::kSuspicion));
    nothing(driver.protocol.OnConnected(now, Boom()));
    nothing(driver.protocol.OnDrained(9));
    nothing(driver.protocol.OnHolders("x"));
    nothing(driver.protocol.OnFinalized(now, Boom()));
    nothing(driver.protocol.OnReleased());
    nothing(driver.protocol.OnTimer(now + absl::Hours(1)));
    nothing(driver.protocol.OnMet(now, driver.Introductions()));
    nothing(driver.protocol.OnMet(now, Boom()));
    nothing(driver.protocol.OnAllConnected(now, driver.Values({"", ""})));
    nothing(driver.protocol.OnVotes(now, driver.Votes({"", "x"})));
    nothing(driver.protocol.OnRecord(now, 1000, next));
    nothing(driver.protocol.OnRecordWritten(now, Boom()));
    nothing(driver.protocol.OnSession(now, SessionRecord()));
    nothing(driver.protocol.OnStoreLost(now, Boom()));
  }
}

TEST(GroupProtocolLateNewsTest, AnswersThatComeDuringAnAbortDoNotReviveTheGroup) {
  for (const SharedState& state : SharedStates()) {
    SCOPED_TRACE(state.name);
    ProtocolDriver driver;
    (driver.*state.way)();
    driver.Take(driver.protocol.Fail(driver.now, Boom(), Certainty::kCause));
    const absl::Time now = driver.now;
    for (const Actions& actions :
         {driver.protocol.OnConnected(now, absl::OkStatus()),
          driver.protocol.OnAllConnected(now, driver.Values({"", ""})),
          driver.protocol.OnDrained(7), driver.protocol.OnVotes(now, driver.Votes({"", ""})),
          driver.protocol.OnHolders(""), driver.protocol.OnFinalized(now, absl::OkStatus())}) {
      EXPECT_TRUE(actions.empty());
    }
    EXPECT_EQ(driver.protocol.state(), GroupState::kAborting);
  }
}

TEST(GroupProtocolLateNewsTest, AnOldRevisionOfTheRecordIsIgnored) {
  ProtocolDriver driver;
  driver.ToReady();
  GroupRecord old = driver.record;
  old.cause = absl::InternalError("of long ago");
  driver.Take(driver.protocol.OnRecord(driver.now, driver.record_revision, old));
  driver.Take(driver.protocol.OnRecord(driver.now, driver.record_revision - 1, old));
  EXPECT_EQ(driver.protocol.state(), GroupState::kReady);
}

}  // namespace
}  // namespace muster

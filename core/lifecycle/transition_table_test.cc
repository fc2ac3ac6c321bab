#include "muster/core/lifecycle/transition_table.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// The contract's table in letters, written from docs/lifecycle.md and not from the code. One row
// per state, one character per event in the order start, peers met, connected, all connected, close
// requested, drained, close agreed, finalized, failed, released. A letter is the state to move to,
// '.' is ignored, '!' is refused.
//   R rendezvous  C connecting  Y ready  D draining  L closing  X destroyed  A aborting  Z aborted
constexpr const char* kContract[kGroupStateCount] = {
    "R!!!X!!!A!",  // created: it can only start, be closed unused, or fail
    "!C!!!!!!A!",  // rendezvous: the peers meet, or it fails; an owner who gives up here makes it
                   // fail
    "!!CY!!!!A!",  // connecting: here, then everywhere
    "!!!!D!!!A!",  // ready: somebody closes, or it fails
    "!!!!.DL!A!",  // draining: a second closer changes nothing
    "!!!!...LAX",  // closing: finalized, and destroyed when nothing is held
    "!.........",  // destroyed
    "!........Z",  // aborting: everything but the end is late news
    "!.........",  // aborted
};
constexpr char kLetters[] = "?RCYDLXAZ";

std::vector<GroupState> AllStates() {
  std::vector<GroupState> states;
  for (int i = 0; i < kGroupStateCount; ++i) states.push_back(static_cast<GroupState>(i));
  return states;
}

std::vector<GroupEvent> AllEvents() {
  std::vector<GroupEvent> events;
  for (int i = 0; i < kGroupEventCount; ++i) events.push_back(static_cast<GroupEvent>(i));
  return events;
}

// A machine in `state`, brought there by events alone.
StateMachine MachineIn(GroupState state) {
  using E = GroupEvent;
  static const std::vector<GroupEvent> kWays[kGroupStateCount] = {
      {},
      {E::kStart},
      {E::kStart, E::kPeersMet},
      {E::kStart, E::kPeersMet, E::kConnected, E::kAllConnected},
      {E::kStart, E::kPeersMet, E::kConnected, E::kAllConnected, E::kCloseRequested},
      {E::kStart, E::kPeersMet, E::kConnected, E::kAllConnected, E::kCloseRequested, E::kDrained,
       E::kCloseAgreed},
      {E::kStart, E::kPeersMet, E::kConnected, E::kAllConnected, E::kCloseRequested, E::kDrained,
       E::kCloseAgreed, E::kFinalized, E::kReleased},
      {E::kStart, E::kFailed},
      {E::kStart, E::kFailed, E::kReleased},
  };
  StateMachine machine;
  for (GroupEvent event : kWays[static_cast<int>(state)]) EXPECT_TRUE(machine.Apply(event).ok());
  EXPECT_EQ(machine.state(), state);
  return machine;
}

TEST(TransitionTableTest, EveryCellIsWhatTheContractSays) {
  for (GroupState state : AllStates()) {
    ASSERT_EQ(std::string(kContract[static_cast<int>(state)]).size(), kGroupEventCount);
    for (GroupEvent event : AllEvents()) {
      SCOPED_TRACE(absl::StrCat(Name(state), " x ", Name(event)));
      const char expected = kContract[static_cast<int>(state)][static_cast<int>(event)];
      StateMachine machine = MachineIn(state);
      const absl::StatusOr<bool> moved = machine.Apply(event);
      switch (expected) {
        case '.':
          ASSERT_TRUE(moved.ok());
          EXPECT_FALSE(*moved);
          EXPECT_EQ(machine.state(), state);
          break;
        case '!':
          EXPECT_EQ(moved.status().code(), absl::StatusCode::kFailedPrecondition);
          EXPECT_EQ(machine.state(), state);
          break;
        default:
          ASSERT_TRUE(moved.ok()) << moved.status();
          EXPECT_TRUE(*moved);
          EXPECT_EQ(kLetters[static_cast<int>(machine.state())], expected);
      }
    }
  }
}

TEST(TransitionTableTest, AFailureLeadsToAbortingFromEveryStateThatIsNotTerminal) {
  for (GroupState state : AllStates()) {
    if (IsTerminal(state)) continue;
    StateMachine machine = MachineIn(state);
    ASSERT_TRUE(machine.Apply(GroupEvent::kFailed).ok()) << Name(state);
    EXPECT_EQ(machine.state(), GroupState::kAborting) << Name(state);
  }
}

TEST(TransitionTableTest, ATerminalStateNeverMoves) {
  for (GroupState state : {GroupState::kDestroyed, GroupState::kAborted}) {
    ASSERT_TRUE(IsTerminal(state));
    for (GroupEvent event : AllEvents()) {
      EXPECT_NE(LookUp(state, event).kind, Transition::Kind::kMove)
          << Name(state) << " x " << Name(event);
    }
  }
}

TEST(TransitionTableTest, OnlyDestroyedAndAbortedAreTerminal) {
  for (GroupState state : AllStates()) {
    EXPECT_EQ(IsTerminal(state), state == GroupState::kDestroyed || state == GroupState::kAborted)
        << Name(state);
  }
}

// L1 is possible at all: no state is a trap.
TEST(TransitionTableTest, FromEveryStateATerminalOneCanBeReached) {
  for (GroupState state : AllStates()) {
    StateMachine machine = MachineIn(state);
    if (!IsTerminal(machine.state())) {
      ASSERT_TRUE(machine.Apply(GroupEvent::kFailed).ok());
      ASSERT_TRUE(machine.Apply(GroupEvent::kReleased).ok());
    }
    EXPECT_TRUE(IsTerminal(machine.state())) << Name(state);
  }
}

TEST(TransitionTableTest, ARefusalNamesTheStateTheEventAndTheReason) {
  for (GroupState state : AllStates()) {
    for (GroupEvent event : AllEvents()) {
      const Transition& transition = LookUp(state, event);
      SCOPED_TRACE(absl::StrCat(Name(state), " x ", Name(event)));
      EXPECT_EQ(transition.kind == Transition::Kind::kRefuse, !transition.message.empty());
      if (transition.kind != Transition::Kind::kRefuse) continue;
      StateMachine machine = MachineIn(state);
      const absl::Status refused = machine.Apply(event).status();
      EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("'", Name(event), "'")));
      EXPECT_THAT(std::string(refused.message()), HasSubstr(Name(state)));
      EXPECT_THAT(std::string(refused.message()), HasSubstr(transition.message));
      EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("\n")));
    }
  }
}

TEST(TransitionTableTest, StatesAndEventsHaveNamesOfTheirOwn) {
  std::vector<std::string> names;
  for (GroupState state : AllStates()) names.push_back(std::string(Name(state)));
  EXPECT_THAT(names,
              testing::ElementsAre("created", "rendezvous", "connecting", "ready", "draining",
                                   "closing", "destroyed", "aborting", "aborted"));
  names.clear();
  for (GroupEvent event : AllEvents()) names.push_back(std::string(Name(event)));
  EXPECT_THAT(names, testing::ElementsAre("start", "peers met", "connected", "all connected",
                                          "close requested", "drained", "close agreed", "finalized",
                                          "failed", "released"));
}

}  // namespace
}  // namespace muster

// Drives one GroupProtocol by hand, for tests: keeps the actions of the last step, the time to wake
// at and a record as the store would hold it.
//
//   ProtocolDriver driver(/*rank=*/1, /*size=*/2);
//   driver.ToReady();
//   driver.Take(driver.protocol.Close(driver.now, absl::Seconds(5), 41));
//   EXPECT_EQ(driver.The<action::Drain>().sequence, 41);
//   driver.AnswerWrite();   // the compare-and-set of the intent
#ifndef MUSTER_CORE_LIFECYCLE_PROTOCOL_DRIVER_H_
#define MUSTER_CORE_LIFECYCLE_PROTOCOL_DRIVER_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/lifecycle/group_protocol.h"

namespace muster {

class ProtocolDriver {
 public:
  static constexpr absl::Duration kSetup = absl::Seconds(30);
  static constexpr absl::Duration kClose = absl::Seconds(5);
  static constexpr absl::Duration kWindow = absl::Milliseconds(200);

  explicit ProtocolDriver(int rank = 0, int size = 2)
      : protocol(OptionsOf(rank, size)), rank_(rank), size_(size) {}

  static Introduction IntroductionOf(int rank) {
    Introduction introduction;
    introduction.incarnation = 100 + rank;
    introduction.host = "a";
    introduction.pid = 7 + rank;
    introduction.identity = {{"backend", "gloo"}};
    introduction.offers = {"gloo"};
    return introduction;
  }

  static GroupProtocol::Options OptionsOf(int rank, int size) {
    GroupProtocol::Options options;
    options.name = "train";
    options.rank = rank;
    options.size = size;
    options.introduction = IntroductionOf(rank);
    options.setup_timeout = kSetup;
    options.close_timeout = kClose;
    options.cause_window = kWindow;
    return options;
  }

  // Remembers what a step asks for.
  void Take(Actions step) {
    actions = std::move(step);
    for (const Action& action : actions) {
      if (const auto* wake = std::get_if<action::WakeAt>(&action)) wake_at = wake->when;
      if (const auto* enter = std::get_if<action::Enter>(&action)) path.push_back(enter->to);
      if (const auto* write = std::get_if<action::WriteRecord>(&action)) {
        EXPECT_FALSE(pending_write.has_value()) << "two compare-and-sets at once";
        pending_write = *write;
      }
    }
  }

  template <class T>
  int Count() const {
    int count = 0;
    for (const Action& action : actions) count += std::holds_alternative<T>(action);
    return count;
  }
  template <class T>
  bool Did() const {
    return Count<T>() > 0;
  }
  // The action of that kind in the last step.
  template <class T>
  T The() const {
    EXPECT_EQ(Count<T>(), 1);
    for (const Action& action : actions) {
      if (const T* found = std::get_if<T>(&action)) return *found;
    }
    return T();
  }

  // --- the store
  absl::StatusOr<GatherResult> Introductions(int64_t known_generation = 0) {
    GatherResult result;
    result.revision = ++revision;
    for (int rank = 0; rank < size_; ++rank) {
      Introduction introduction = IntroductionOf(rank);
      introduction.known_generation = known_generation;
      result.values.push_back(introduction.Encode());
    }
    return result;
  }
  absl::StatusOr<GatherResult> Values(std::vector<std::string> values) {
    GatherResult result;
    result.revision = ++revision;
    result.values = std::move(values);
    return result;
  }
  absl::StatusOr<GatherResult> Votes(std::vector<std::string> holders) {
    std::vector<std::string> values;
    for (std::string& holder : holders) values.push_back(CloseVote{0, std::move(holder)}.Encode());
    return Values(std::move(values));
  }
  // A peer has written the record.
  void PeerWrites(GroupRecord written) {
    record = std::move(written);
    record_revision = ++revision;
    Take(protocol.OnRecord(now, record_revision, record));
  }
  void PeerIntends(CloseIntent::Kind kind, int rank, int64_t sequence, std::string wanted = "") {
    GroupRecord next = record;
    CloseIntent intent;
    intent.number = next.intent.has_value() ? next.intent->number + 1 : 1;
    intent.kind = kind;
    intent.rank = rank;
    intent.sequence = sequence;
    intent.wanted = std::move(wanted);
    next.intent = std::move(intent);
    PeerWrites(std::move(next));
  }
  void PeerFails(absl::Status cause) {
    GroupRecord next = record;
    next.cause = std::move(cause);
    PeerWrites(std::move(next));
  }
  // Answers the compare-and-set that waits, as the store does.
  void AnswerWrite() {
    ASSERT_TRUE(pending_write.has_value());
    const action::WriteRecord write = *std::exchange(pending_write, std::nullopt);
    CompareAndSetResult result;
    result.swapped = write.expected == record_revision;
    if (result.swapped) {
      record = write.record;
      record_revision = ++revision;
    }
    result.current.revision = record_revision;
    if (record_revision != 0) result.current.value = record.Encode();
    Take(protocol.OnRecordWritten(now, result));
  }
  void FailWrite(absl::Status why) {
    ASSERT_TRUE(pending_write.has_value());
    pending_write.reset();
    Take(protocol.OnRecordWritten(now, std::move(why)));
  }
  void Session(int rank, SessionRecord::Liveness liveness, uint64_t incarnation,
               std::string reason = "") {
    SessionRecord session;
    session.rank = rank;
    session.incarnation = incarnation;
    session.host = "b";
    session.pid = 812;
    session.liveness = liveness;
    session.reason = std::move(reason);
    Take(protocol.OnSession(now, session));
  }
  void Lose(int rank) {
    Session(rank, SessionRecord::Liveness::kLost, 100 + rank, "killed by signal 9");
  }

  // --- ways to a state
  void ToRendezvous() { Take(protocol.Start(now)); }
  void ToConnecting(int64_t known_generation = 0) {
    ToRendezvous();
    Take(protocol.OnMet(now, Introductions(known_generation)));
    if (rank_ == 0) return AnswerWrite();
    GroupRecord live;
    live.generation = known_generation + 1;
    for (int rank = 0; rank < size_; ++rank) live.incarnations.push_back(100 + rank);
    PeerWrites(live);
  }
  void ToConfirming() {
    ToConnecting();
    Take(protocol.OnConnected(now, absl::OkStatus()));
  }
  void ToReady() {
    ToConfirming();
    Take(protocol.OnAllConnected(now, Values(std::vector<std::string>(size_))));
  }
  // By this rank, after #7; the intent is written, nothing has drained.
  void ToDraining() {
    ToReady();
    Take(protocol.Close(now, kClose, 7));
    const Actions close = actions;
    AnswerWrite();
    actions = close;
  }
  void ToVoting() {
    ToDraining();
    Take(protocol.OnDrained(7));
  }
  void ToClosing() {
    ToVoting();
    Take(protocol.OnVotes(now, Votes(std::vector<std::string>(size_))));
  }
  void ToDestroyed() {
    ToClosing();
    Take(protocol.OnFinalized(now, absl::OkStatus()));
    Take(protocol.OnReleased());
  }
  void ToAborting() {
    ToReady();
    Take(protocol.Fail(now, absl::InternalError("boom"), Certainty::kCause));
  }
  void ToAborted() {
    ToAborting();
    AnswerWrite();
    Take(protocol.OnReleased());
  }

  // Lets time pass up to the alarm that the protocol has set.
  void Wake() {
    ASSERT_NE(wake_at, absl::InfiniteFuture());
    now = std::max(now, wake_at);
    const absl::Time due = std::exchange(wake_at, absl::InfiniteFuture());
    Take(protocol.OnTimer(now));
    ASSERT_NE(wake_at, due) << "an alarm that is not heeded rings for ever";
  }
  // Lets `duration` pass, with every alarm in it.
  void Sleep(absl::Duration duration) {
    const absl::Time until = now + duration;
    while (wake_at <= until && !testing::Test::HasFatalFailure()) Wake();
    now = until;
  }

  GroupProtocol protocol;
  absl::Time now = absl::FromUnixSeconds(1000);
  Actions actions;               // of the last step
  std::vector<GroupState> path;  // all states entered
  absl::Time wake_at = absl::InfiniteFuture();
  std::optional<action::WriteRecord> pending_write;
  GroupRecord record;
  Revision record_revision = 0;
  Revision revision = 0;

 private:
  const int rank_;
  const int size_;
};

}  // namespace muster

#endif  // MUSTER_CORE_LIFECYCLE_PROTOCOL_DRIVER_H_

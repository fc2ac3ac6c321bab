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

  static Introduction IntroductionOf(int rank);

  static GroupProtocol::Options OptionsOf(int rank, int size);

  // Remembers what a step asks for.
  void Take(Actions step);

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
  absl::StatusOr<GatherResult> Introductions(int64_t known_generation = 0);
  absl::StatusOr<GatherResult> Values(std::vector<std::string> values) {
    GatherResult result;
    result.revision = ++revision;
    result.values = std::move(values);
    return result;
  }
  // Of ranks that did the same work.
  absl::StatusOr<GatherResult> Votes(std::vector<std::string> holders);
  // A peer has written the record.
  void PeerWrites(GroupRecord written) {
    record = std::move(written);
    record_revision = ++revision;
    Take(protocol.OnRecord(now, record_revision, record));
  }
  void PeerIntends(CloseIntent::Kind kind, int rank, int64_t sequence, std::string wanted = "",
                   absl::Duration timeout = absl::ZeroDuration());
  void PeerFails(absl::Status cause) {
    GroupRecord next = record;
    next.cause = std::move(cause);
    PeerWrites(std::move(next));
  }
  // Answers the compare-and-set that waits, as the store does.
  void AnswerWrite();
  void FailWrite(absl::Status why);
  void Session(int rank, SessionRecord::Liveness liveness, uint64_t incarnation,
               std::string reason = "");
  void Lose(int rank) {
    Session(rank, SessionRecord::Liveness::kLost, 100 + rank, "killed by signal 9");
  }

  // --- ways to a state
  void ToRendezvous() { Take(protocol.Start(now)); }
  void ToConnecting(int64_t known_generation = 0);
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
  void Wake();
  // Lets `duration` pass, with every alarm in it.
  void Sleep(absl::Duration duration);

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

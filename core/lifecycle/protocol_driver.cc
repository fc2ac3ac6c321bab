#include "muster/core/lifecycle/protocol_driver.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace muster {

Introduction ProtocolDriver::IntroductionOf(int rank) {
  Introduction introduction;
  introduction.incarnation = 100 + rank;
  introduction.host = "a";
  introduction.pid = 7 + rank;
  introduction.identity = {{"backend", "gloo"}};
  introduction.offers = {"gloo"};
  return introduction;
}

GroupProtocol::Options ProtocolDriver::OptionsOf(int rank, int size) {
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

void ProtocolDriver::Take(Actions step) {
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

absl::StatusOr<GatherResult> ProtocolDriver::Introductions(int64_t known_generation) {
  GatherResult result;
  result.revision = ++revision;
  for (int rank = 0; rank < size_; ++rank) {
    Introduction introduction = IntroductionOf(rank);
    introduction.known_generation = known_generation;
    result.values.push_back(introduction.Encode());
  }
  return result;
}

absl::StatusOr<GatherResult> ProtocolDriver::Votes(std::vector<std::string> holders) {
  std::vector<std::string> values;
  const int64_t sequence = record.intent.has_value() ? record.intent->sequence : 0;
  for (std::string& holder : holders) {
    values.push_back(CloseVote{sequence, std::move(holder)}.Encode());
  }
  return Values(std::move(values));
}

void ProtocolDriver::PeerIntends(CloseIntent::Kind kind, int rank, int64_t sequence,
                                 std::string wanted, absl::Duration timeout) {
  GroupRecord next = record;
  CloseIntent intent;
  intent.number = next.intent.has_value() ? next.intent->number + 1 : 1;
  intent.kind = kind;
  intent.rank = rank;
  intent.sequence = sequence;
  intent.timeout = timeout;
  intent.wanted = std::move(wanted);
  next.intent = std::move(intent);
  PeerWrites(std::move(next));
}

void ProtocolDriver::AnswerWrite() {
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

void ProtocolDriver::FailWrite(absl::Status why) {
  ASSERT_TRUE(pending_write.has_value());
  pending_write.reset();
  Take(protocol.OnRecordWritten(now, std::move(why)));
}

void ProtocolDriver::Session(int rank, SessionRecord::Liveness liveness, uint64_t incarnation,
                             std::string reason) {
  SessionRecord session;
  session.rank = rank;
  session.incarnation = incarnation;
  session.host = "b";
  session.pid = 812;
  session.liveness = liveness;
  session.reason = std::move(reason);
  Take(protocol.OnSession(now, session));
}

void ProtocolDriver::ToConnecting(int64_t known_generation) {
  ToRendezvous();
  Take(protocol.OnMet(now, Introductions(known_generation)));
  if (rank_ == 0) return AnswerWrite();
  GroupRecord live;
  live.generation = known_generation + 1;
  for (int rank = 0; rank < size_; ++rank) live.incarnations.push_back(100 + rank);
  PeerWrites(live);
}

void ProtocolDriver::Wake() {
  ASSERT_NE(wake_at, absl::InfiniteFuture());
  now = std::max(now, wake_at);
  const absl::Time due = std::exchange(wake_at, absl::InfiniteFuture());
  Take(protocol.OnTimer(now));
  ASSERT_NE(wake_at, due) << "an alarm that is not heeded rings for ever";
}

void ProtocolDriver::Sleep(absl::Duration duration) {
  const absl::Time until = now + duration;
  while (wake_at <= until && !testing::Test::HasFatalFailure()) Wake();
  now = until;
}

}  // namespace muster

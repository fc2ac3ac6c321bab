// One client of a TcpServerCore: a stranger until it has introduced itself, then a session.
#ifndef MUSTER_CORE_STORE_TCP_SERVER_CONNECTION_H_
#define MUSTER_CORE_STORE_TCP_SERVER_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/executor.h"
#include "muster/core/store/frame_stream.h"
#include "muster/core/store/gather_table.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/store_engine.h"
#include "muster/core/store/store_server_statistics.h"
#include "muster/core/store/tcp_server_core.h"
#include "muster/core/store/wire.h"

namespace muster::store_internal {

// A greeting that has begun is over within moments: what nobody waits for any longer.
inline constexpr absl::Duration kGreeting = absl::Seconds(1);

// Its stream's callbacks hold it weakly; the core's set holds it.
class TcpServerCore::Connection final : public StoreEngine::Sink,
                                        public std::enable_shared_from_this<Connection> {
 public:
  Connection(TcpServerCore* core, std::shared_ptr<FrameStream> stream, uint64_t number)
      : core_(core), stream_(std::move(stream)), number_(number), came_at_(core->control_->Now()) {}

  void Start();

  void Send(const Response& response) override;
  void SendGathered(const Response& answer, const GatherTable::Result& result) override;

  size_t queued() const { return stream_->queued(); }
  bool HasInput() const { return stream_->HasInput(); }
  bool HasSpoken() const { return challenged_ || HasInput(); }
  absl::Time came_at() const { return came_at_; }
  StoreEngine::SessionId session() const { return session_; }
  bool HasLiveSession() const { return core_->engine_.LiveSession(rank_) == session_; }

  void Finish() { stream_->Finish(); }
  void Abandon() { stream_->Abandon(); }

  // `as`: what it is counted as, unless that was decided before.
  using Count = int64_t StoreServerStatistics::*;
  void Close(Count as, const absl::Status& why);

  // Ends one that has not introduced itself, for others. Its last word is for a rank that has to
  // try again.
  void MakeRoom(absl::string_view why);

  // The session's end, for the engine: this is no sink of it any more.
  void Disconnect(absl::string_view why);

 private:
  void SendFrame(FrameParts frame);
  // Unless a session is open by then.
  void EndWithin(absl::Duration time);

  // Texts of errors complete the sentence "its connection was ended: ..."
  absl::Status OnFrame(absl::string_view body);
  absl::Status OnRefused(const Refused& refused);  // the last word of the other end
  absl::Status OnHello(const Hello& hello);
  absl::Status OnOpen(Open open);
  void OnClosed(const absl::Status& why);

  void TryOpen(const Open& open, absl::Time give_up);
  void Refuse(Count as, const absl::Status& status);
  static void LogStranger(absl::string_view why);
  // What its end is counted as; null: as nothing, an ordinary end.
  Count CountOf(const absl::Status& why) const;

  TcpServerCore* const core_;
  const std::shared_ptr<FrameStream> stream_;
  const uint64_t number_;  // in the order of arrival
  const absl::Time came_at_;
  StoreEngine::SessionId session_ = 0;
  int rank_ = 0;  // of the session
  Executor::TimerId deadline_ = 0;
  bool challenged_ = false;
  bool opening_ = false;
  Count counted_as_ = nullptr;
  std::string client_nonce_;
  std::string server_nonce_;
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_TCP_SERVER_CONNECTION_H_

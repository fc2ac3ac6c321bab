// What runs on the control thread for a TcpStoreServer: the listener, the connections, the engine.
#ifndef MUSTER_CORE_STORE_TCP_SERVER_CORE_H_
#define MUSTER_CORE_STORE_TCP_SERVER_CORE_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "asio/posix/stream_descriptor.hpp"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/fork_guard.h"
#include "muster/core/store/frame_stream.h"
#include "muster/core/store/gather_table.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/queue_account.h"
#include "muster/core/store/store_engine.h"
#include "muster/core/store/store_server_statistics.h"
#include "muster/core/store/tcp_address.h"
#include "muster/core/store/wire.h"

namespace muster::store_internal {

struct TcpServerOptions {
  StoreEngine::Options engine;
  std::string token;
  std::string served_by;
  absl::Duration handshake_timeout = kHandshakeTimeout;
  size_t max_strangers = kMaxStrangers;
  absl::Duration first_word = kFirstWord;
  size_t max_queued = kMaxQueuedForClient;
  size_t max_queued_for_all = kMaxQueued;
  uid_t user = geteuid();  // who may connect to a unix socket
};

// On the control thread only.
class TcpServerCore : public std::enable_shared_from_this<TcpServerCore> {
 public:
  // Takes `listener.fd` and its path. Any thread. Unavailable when the system has no room for one
  // more socket to watch.
  static absl::StatusOr<std::shared_ptr<TcpServerCore>> Create(ControlThread* control,
                                                               const TcpServerOptions& options,
                                                               const Listener& listener);
  ~TcpServerCore();

  void Begin();

  // Runs `drained` when no session is open any more; the listener closes at once.
  void Drain(absl::AnyInvocable<void()> drained);
  // Ends everything; `closed` runs when no connection is left, or soon after.
  void Close(absl::AnyInvocable<void()> closed);

  StoreEngine& engine() { return engine_; }
  const StoreServerStatistics& statistics() const { return statistics_; }

  // Time or a session may have changed: is there something to do, and when is the next time?
  void Changed();

 private:
  class Connection;

  TcpServerCore(ControlThread* control, const TcpServerOptions& options, const Listener& listener,
                asio::posix::stream_descriptor acceptor);

  void Accept();
  void Admit(int fd);
  // Whether the system says that the other side is our user's.
  bool IsOurUsers(int fd);
  // Ends one that has not introduced itself: who has said nothing for options_.first_word, else
  // whoever came first, but nobody who came less than `patience` ago. Whether one was ended.
  bool EndAStranger(absl::Duration patience, absl::string_view why);
  // Makes room among the connections of sessions where they are too many, the oldest first of those
  // whose session has ended.
  void EndAnEndedSession();
  // The values of `result` as in a frame, the same bytes for all whose answer it is.
  std::shared_ptr<const std::string> Encoded(const GatherTable::Result& result);
  // Ends the connections for which the most waits, while too much waits for all together.
  void BoundQueues();
  void CloseListener();
  // Whether the session of `rank` has sent something that was not read yet, or its end.
  bool HasNewsOf(int rank) const;
  void Remove(const std::shared_ptr<Connection>& connection);

  ControlThread* const control_;
  const TcpServerOptions options_;
  StoreEngine engine_;
  asio::posix::stream_descriptor acceptor_;
  ForkGuardedFd listener_guard_;
  const Listener listener_;
  std::set<std::shared_ptr<Connection>> connections_;
  std::map<uint64_t, std::weak_ptr<Connection>> strangers_;  // without a session, the oldest first
  uint64_t arrivals_ = 0;
  StoreServerStatistics statistics_;
  const std::shared_ptr<QueueAccount> queued_ = std::make_shared<QueueAccount>();
  // The last one of Encoded, while the round is being answered.
  GatherTable::Result result_;
  std::shared_ptr<const std::string> encoded_;
  Executor::TimerId tick_timer_ = 0;
  absl::Time tick_at_ = absl::InfiniteFuture();
  Executor::TimerId accept_timer_ = 0;
  absl::AnyInvocable<void()> drained_;
  absl::AnyInvocable<void()> all_closed_;
  bool draining_ = false;
  bool closing_ = false;
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_TCP_SERVER_CORE_H_

// The store's server on TCP or a unix socket: embedded in the launcher, or in rank 0 of a job
// without one.
//
//   TcpStoreServer::Options options;
//   options.world_size = 4;
//   options.token = token;                       // the ranks get it, too; it never travels
//   options.served_by = "muster run, host a, pid 7";
//   absl::StatusOr<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::Start(options);
//   ... start ranks with (*server)->address() ...
//   (*server)->DeclareLost(2, "killed by signal 9");
//   absl::Status stopped = (*server)->Stop(MonotonicNow() + absl::Seconds(5));
#ifndef MUSTER_CORE_STORE_TCP_STORE_SERVER_H_
#define MUSTER_CORE_STORE_TCP_STORE_SERVER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/store_server_statistics.h"

namespace muster {

namespace store_internal {
class TcpServerCore;
}  // namespace store_internal

// Thread-safe. A client that sends what is no valid frame, too long a one or one out of place loses
// its connection, and nobody else notices. So does a stranger who does not know the token, before
// it has changed anything.
class TcpStoreServer {
 public:
  struct Options {
    int world_size = 1;
    // Where to listen. Port 0: any free one, see address(). Or "unix:/path": a socket there, gone
    // with the server, for the processes of one user alone, in a folder that nobody else can enter.
    std::string address = "127.0.0.1:0";
    // Who may connect to a unix socket, as the system says; none: who this process is.
    std::optional<uid_t> user;
    // Bound of looking its name up; a number is not looked up.
    absl::Duration lookup_timeout = absl::Seconds(10);
    // Without it, or without a token, an address beyond this host is refused: whoever reaches the
    // port and has the token may change the job's store, and what goes over the wire is not
    // encrypted.
    bool beyond_this_host = false;
    std::string token;
    // Who serves, for the messages of clients that lose it: "rank 0, host a, pid 7".
    std::string served_by;
    // How long a session outlives its connection: long enough for a launcher to say what became of
    // the process. Peers learn of the death that much later where nobody says anything.
    absl::Duration loss_grace = absl::ZeroDuration();
    // One rank serves it until that rank leaves: a rank that has left in good order and comes again
    // means the next store at this address, and is told to try again.
    bool ends_with_its_host = false;
    // Told of each session that begins or is lost, on the control thread: must neither block nor
    // call the server. Not after the server is gone. May be empty.
    std::function<void(const SessionRecord&)> on_session;
    // Bound of a connection's first words.
    absl::Duration handshake_timeout = store_internal::kHandshakeTimeout;
    // Connections that have not introduced themselves yet, 1 or more, but no more than half of the
    // descriptors of this process; one more ends one that has said nothing for `first_word`, else
    // the oldest. None: kMaxStrangers, or as many as there are ranks.
    std::optional<size_t> max_strangers;
    absl::Duration first_word = store_internal::kFirstWord;
    // Bytes that may wait for a client that does not read before its connection ends.
    size_t max_queued = store_internal::kMaxQueuedForClient;
    // The same for all clients together: the one goes for which the most waits.
    size_t max_queued_for_all = store_internal::kMaxQueued;
    // All other limits: limits.h.
    // Where it runs; it outlives the server. Null: on a thread of its own.
    ControlThread* control_thread = nullptr;
  };

  // Listens, then returns. Errors: InvalidArgument (an option; the form of the address), NotFound
  // (its host), DeadlineExceeded (nobody says where its host is), FailedPrecondition (somebody else
  // holds the port; an address beyond this host), Unavailable (no address of this host), else what
  // the system says, such as ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<TcpStoreServer>> Start(const Options& options);

  // Stop at once.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  // With the port that was bound: "127.0.0.1:41231"; "unix:/path".
  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }  // 0 of a unix socket

  // What a launcher does when it has reaped a process. The first cause of a session's end stays.
  void DeclareLost(int rank, absl::string_view reason);

  // The latest record of each rank that ever came or was declared lost. Not for the control thread.
  std::vector<SessionRecord> Sessions() const;

  // The keys that start with `prefix`, as they stand. Not for the control thread.
  std::vector<Entry> Entries(absl::string_view prefix) const;

  // What came and was refused. Not for the control thread.
  StoreServerStatistics Statistics() const;

  // Takes no new sessions (the port is free at once) and serves on until every session has ended:
  // the store's host leaves last. At `deadline` it ends them: DeadlineExceeded naming the ranks.
  // When it returns, every connection is closed. Idempotent. FailedPrecondition on the control
  // thread.
  absl::Status Stop(absl::Time deadline);

  // From now on Stop, one that waits already or one to come, waits for no session.
  void StopWaiting();

 private:
  struct Drain {
    absl::Mutex mutex;
    bool over ABSL_GUARDED_BY(mutex) = false;  // all sessions have ended, or are not waited for
  };

  TcpStoreServer(std::unique_ptr<ControlThread> own_thread, ControlThread* control,
                 std::shared_ptr<store_internal::TcpServerCore> core, std::string address,
                 uint16_t port);

  absl::Status StopOnce(absl::Time deadline);

  std::unique_ptr<ControlThread> own_thread_;
  ControlThread* const control_;
  const uint64_t fork_generation_;
  const std::string address_;
  const uint16_t port_;
  std::shared_ptr<store_internal::TcpServerCore> core_;
  const std::shared_ptr<Drain> drain_ = std::make_shared<Drain>();

  absl::Mutex stop_mutex_;  // held while stopping: a second caller waits for the first one's result
  std::optional<absl::Status> stopped_ ABSL_GUARDED_BY(stop_mutex_);
};

}  // namespace muster

#endif  // MUSTER_CORE_STORE_TCP_STORE_SERVER_H_

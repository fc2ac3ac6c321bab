// A store on TCP or a unix socket: one rank's session with a TcpStoreServer.
//
//   TcpStore::Options options;
//   options.address = "127.0.0.1:41231";
//   options.token = token;
//   options.session = {rank, world_size, host, pid, incarnation};
//   options.deadline = MonotonicNow() + absl::Seconds(30);
//   options.control_thread = control.get();
//   absl::StatusOr<std::unique_ptr<TcpStore>> store = TcpStore::Connect(options);
#ifndef MUSTER_CORE_STORE_TCP_STORE_H_
#define MUSTER_CORE_STORE_TCP_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/client_store.h"
#include "muster/core/store/session_record.h"

namespace muster {

namespace store_internal {
class ClientCore;
class TcpChannel;
}  // namespace store_internal

// Thread-safe. When the connection is lost everything pending and later answers Unavailable: "the
// store (rank 0, host a, pid 7, at 127.0.0.1:41231) was lost: connection closed"; there is no
// reconnecting, since the server has declared the session lost. Its callbacks run on the control
// thread.
class TcpStore final : public store_internal::ClientStore {
 public:
  struct Options {
    std::string address;  // "host:port" or "unix:/path"
    std::string token;
    SessionInfo session;
    // A beat each tenth of it, both ways. The server declares this session lost when it hears
    // nothing for longer, and this side the server, but for one on a unix socket: that is there as
    // long as the connection, paused or not. Infinite: no beats.
    absl::Duration heartbeat_timeout = absl::Seconds(10);
    // How long to try: the server may start later than its clients.
    absl::Time deadline = absl::InfinitePast();
    ControlThread* control_thread = nullptr;  // outlives the store
  };

  // Blocks; not for the control thread (FailedPrecondition). A connection that is refused, or
  // closed before anything was said, is tried again until the deadline: DeadlineExceeded with the
  // address, what was seen and what to do. At once: InvalidArgument (the address; rank or world
  // size, see StoreEngine), NotFound (the host), PermissionDenied (the unix socket is another
  // user's), AlreadyExists (this rank is here already), FailedPrecondition (this incarnation is
  // fenced). What is said there without a proof that the token is known there is no error before
  // two seconds of trying: PermissionDenied (the token is another job's), FailedPrecondition (what
  // listens there is no store, or says that it does not take this one), DataLoss (something between
  // the two answered).
  static absl::StatusOr<std::unique_ptr<TcpStore>> Connect(const Options& options);

  // Leaves, and waits for no peer: what is pending is answered with Cancelled. In a forked child it
  // does nothing: the session is the parent's.
  ~TcpStore() override;

  // "rank 0, host a, pid 7, at 127.0.0.1:41231"
  const std::string& server() const { return server_; }

  // This host's address on the way to the server, as a number: "127.0.0.1" (of a unix socket, too),
  // "10.0.0.7".
  const std::string& local_host() const { return local_host_; }

 private:
  TcpStore(ControlThread* control, std::shared_ptr<store_internal::ClientCore> core,
           std::shared_ptr<store_internal::TcpChannel> channel, std::string server,
           std::string local_host);

  ControlThread* const control_;
  const uint64_t fork_generation_;
  const std::string server_;
  const std::string local_host_;
  std::shared_ptr<store_internal::TcpChannel> channel_;
};

}  // namespace muster

#endif  // MUSTER_CORE_STORE_TCP_STORE_H_

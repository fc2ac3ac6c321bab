// How a client of the TCP store finds the server and introduces itself, on a thread that may wait.
#ifndef MUSTER_CORE_STORE_TCP_HANDSHAKE_H_
#define MUSTER_CORE_STORE_TCP_HANDSHAKE_H_

#include <sys/types.h>
#include <unistd.h>

#include <limits>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/platform/fork_guard.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/tcp_address.h"

namespace muster::store_internal {

struct HandshakeOptions {
  std::string address;
  std::string token;
  SessionInfo session;
  absl::Duration heartbeat_timeout;
  absl::Time deadline;  // of MonotonicNow
  Lookup lookup = AskTheSystem;
  uid_t user = geteuid();  // who is to serve a unix socket
  // What is said there without a proof that it knows the token is no error before this has passed.
  // As long as a store may need to follow another one at its address.
  absl::Duration unproven_patience = absl::Seconds(2);
  int max_attempts = std::numeric_limits<int>::max();  // at all addresses together
};

// An open session. `fd` is the caller's; it is guarded against fork.
struct HandshakeResult {
  int fd = -1;
  int family = 0;
  std::string local_host;  // this side's address, as a number; 127.0.0.1 for a unix socket
  std::string served_by;
  ForkGuardedFd guard;
  std::optional<FrameSeal> seal;  // of what is sent and comes from here on; none on a unix socket
};

// Tries the addresses of the host in turn until the deadline. One that does not answer gets its
// share of the time, at least a second. Errors: see TcpStore::Connect.
absl::StatusOr<HandshakeResult> OpenSession(const HandshakeOptions& options);

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_TCP_HANDSHAKE_H_

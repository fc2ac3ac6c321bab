// "host:port" or "unix:/path" and what the system makes of it: the sockets of the TCP store, which
// takes unix sockets as well.
//
// All descriptors are close-on-exec and non-blocking.
#ifndef MUSTER_CORE_STORE_TCP_ADDRESS_H_
#define MUSTER_CORE_STORE_TCP_ADDRESS_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/endpoint.h"

namespace muster::store_internal {

using TcpAddress = Endpoint;

// InvalidArgument naming the text and the form expected.
absl::StatusOr<TcpAddress> ParseTcpAddress(absl::string_view text);

struct ResolvedAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  int family() const { return storage.ss_family; }
  // Whether only this host reaches it.
  bool IsLoopback() const;
  TcpAddress Numeric() const;  // not of a unix socket
  std::string ToString() const;
};

// As getaddrinfo of the system, which blocks for as long as its configuration says. Unavailable
// when asking again may help.
using Lookup = std::function<absl::StatusOr<std::vector<ResolvedAddress>>(const TcpAddress&)>;
absl::StatusOr<std::vector<ResolvedAddress>> AskTheSystem(const TcpAddress& address);

// What the host stands for, best first. A number is not looked up; a name is, on a thread of its
// own, which nothing can cancel: at `deadline` (of MonotonicNow) it is left to end by itself. A
// name server that cannot answer for the moment, as while a container's network comes up, is asked
// again. NotFound or DeadlineExceeded, naming the host.
absl::StatusOr<std::vector<ResolvedAddress>> Resolve(const TcpAddress& address, absl::Time deadline,
                                                     Lookup lookup = AskTheSystem);

// What a store may be served at: Resolve of "host:port", or the socket of "unix:/path".
// InvalidArgument naming the text and the forms expected.
absl::StatusOr<std::vector<ResolvedAddress>> ResolveStore(absl::string_view text,
                                                          absl::Time deadline,
                                                          Lookup lookup = AskTheSystem);

struct Listener {
  int fd = -1;         // the caller's
  TcpAddress address;  // with the port that the system chose
  int family = 0;
  std::string path = "";  // of a unix socket, which then has no address: see RemoveSocket
  dev_t device = 0;       // and which file that is
  ino_t inode = 0;

  std::string ToString() const;
};

// Listens. FailedPrecondition when somebody else holds the port, or the path is there already. A
// unix socket is made for this user alone.
absl::StatusOr<Listener> Listen(const ResolvedAddress& address);

// The file of a unix socket, unless something else has taken its path.
void RemoveSocket(const Listener& listener);

// A non-blocking socket on which connect was called: connected or connecting. The caller's.
absl::StatusOr<int> StartConnect(const ResolvedAddress& address);

// This side's address of a connected socket of the internet, as numbers.
TcpAddress LocalAddress(int fd);

// The user on the other side of a connected unix socket, who cannot choose what this says. Unknown
// where the system does not tell.
absl::StatusOr<uid_t> PeerUser(int fd);

// Small messages leave at once.
void DisableDelay(int fd);

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_TCP_ADDRESS_H_

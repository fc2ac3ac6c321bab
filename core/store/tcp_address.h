// "host:port" and what the system makes of it: the sockets of the TCP store.
//
// All descriptors are close-on-exec and non-blocking.
#ifndef MUSTER_CORE_STORE_TCP_ADDRESS_H_
#define MUSTER_CORE_STORE_TCP_ADDRESS_H_

#include <sys/socket.h>

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
  bool IsLoopback() const;
  TcpAddress Numeric() const;
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

struct Listener {
  int fd = -1;         // the caller's
  TcpAddress address;  // with the port that the system chose
  int family = 0;
};

// Listens. FailedPrecondition when somebody else holds the port.
absl::StatusOr<Listener> Listen(const ResolvedAddress& address);

// A non-blocking socket on which connect was called: connected or connecting. The caller's.
absl::StatusOr<int> StartConnect(const ResolvedAddress& address);

// This side's address of a connected socket, as numbers.
TcpAddress LocalAddress(int fd);

// Small messages leave at once.
void DisableDelay(int fd);

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_TCP_ADDRESS_H_

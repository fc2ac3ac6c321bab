#include "muster/core/store/tcp_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>  // NOLINT(build/c++11): absl has no thread
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster::store_internal {

absl::StatusOr<TcpAddress> ParseTcpAddress(absl::string_view text) {
  std::optional<TcpAddress> address = ParseEndpoint(text);
  if (address.has_value()) return *std::move(address);
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text,
                   "\" is not an address: expected host:port, such as 127.0.0.1:29500 or "
                   "[::1]:29500, or unix:/path with a path of at most 107 bytes"));
}

namespace {

// Before a name server that was not able to answer is asked again.
constexpr absl::Duration kLookupPause = absl::Milliseconds(100);

absl::StatusOr<std::vector<ResolvedAddress>> Ask(const TcpAddress& address, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  const int failed =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &list);
  if (failed == EAI_AGAIN) {
    return absl::UnavailableError(absl::StrCat("cannot find host \"", address.host,
                                               "\" in time: ", gai_strerror(failed),
                                               ": check the name server, or give its number"));
  }
  if (failed != 0) {
    return absl::NotFoundError(absl::StrCat("cannot find host \"", address.host,
                                            "\": ", gai_strerror(failed),
                                            ": check the name, or give its number"));
  }
  std::vector<ResolvedAddress> resolved;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    ResolvedAddress one;
    std::memcpy(&one.storage, info->ai_addr, info->ai_addrlen);
    one.size = info->ai_addrlen;
    resolved.push_back(one);
  }
  freeaddrinfo(list);
  if (resolved.empty()) {
    return absl::NotFoundError(absl::StrCat("host \"", address.host, "\" has no internet address"));
  }
  return resolved;
}

}  // namespace

bool ResolvedAddress::IsLoopback() const {
  if (family() == AF_UNIX) return true;
  if (family() == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(storage);
    return (ntohl(address.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& address = reinterpret_cast<const sockaddr_in6&>(storage);
  return IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
}

TcpAddress ResolvedAddress::Numeric() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
    return {text, ntohs(address.sin_port)};
  }
  const auto& address = reinterpret_cast<const sockaddr_in6&>(storage);
  inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof(text));
  return {text, ntohs(address.sin6_port)};
}

std::string ResolvedAddress::ToString() const {
  if (family() != AF_UNIX) return Numeric().ToString();
  return UnixAddress(reinterpret_cast<const sockaddr_un&>(storage).sun_path);
}

absl::StatusOr<std::vector<ResolvedAddress>> ResolveStore(absl::string_view text,
                                                          absl::Time deadline, Lookup lookup) {
  if (const std::optional<std::string> path = ParseUnixAddress(text); path.has_value()) {
    ResolvedAddress resolved;
    auto& address = reinterpret_cast<sockaddr_un&>(resolved.storage);
    address.sun_family = AF_UNIX;
    // The rest is zeros, and the path is shorter than its place.
    std::memcpy(address.sun_path, path->data(), path->size());
    resolved.size = sizeof(address);
    return std::vector{resolved};
  }
  const absl::StatusOr<TcpAddress> address = ParseTcpAddress(text);
  if (!address.ok()) return address.status();
  return Resolve(*address, deadline, std::move(lookup));
}

std::string Listener::ToString() const {
  return path.empty() ? address.ToString() : UnixAddress(path);
}

absl::StatusOr<std::vector<ResolvedAddress>> AskTheSystem(const TcpAddress& address) {
  return Ask(address, 0);
}

absl::StatusOr<std::vector<ResolvedAddress>> Resolve(const TcpAddress& address, absl::Time deadline,
                                                     Lookup lookup) {
  absl::StatusOr<std::vector<ResolvedAddress>> number = Ask(address, AI_NUMERICHOST);
  if (number.ok()) return number;
  struct State {
    Lookup lookup;
    TcpAddress address;
    absl::StatusOr<std::vector<ResolvedAddress>> result;
    absl::Notification done;
  };
  auto state = std::make_shared<State>();
  state->lookup = std::move(lookup);
  state->address = address;
  // The new thread inherits the mask: a program's handlers run on threads of its own.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status started;
  // The one library call here that throws: std::thread reports a system without threads so.
  try {
    std::thread([state, deadline] {
      while (true) {
        state->result = state->lookup(state->address);
        if (!absl::IsUnavailable(state->result.status())) break;
        if (MonotonicNow() + kLookupPause >= deadline) {
          state->result = absl::DeadlineExceededError(state->result.status().message());
          break;
        }
        absl::SleepFor(kLookupPause);
      }
      state->done.Notify();
    }).detach();
  } catch (const std::system_error& error) {
    started = absl::ResourceExhaustedError(
        absl::StrCat("no thread to look up host \"", address.host, "\": ", error.what(),
                     "; look at the process and memory limits (ulimit -u, cgroup pids.max), or "
                     "give its number"));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started.ok()) return started;
  if (!state->done.WaitForNotificationWithTimeout(deadline - MonotonicNow())) {
    return absl::DeadlineExceededError(
        absl::StrCat("cannot find host \"", address.host,
                     "\" in time: the name server does not answer; give the host's number"));
  }
  return std::move(state->result);
}

namespace {

absl::Status CannotServe(const ResolvedAddress& address, int error) {
  const std::string what = absl::StrCat("cannot serve the store on ", address.ToString());
  if (error == EADDRINUSE && address.family() == AF_UNIX) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, ": there is a file of that name: choose another path"));
  }
  if (error == EADDRINUSE) {
    return absl::FailedPreconditionError(absl::StrCat(
        what, ": another process listens there: stop it, or choose another port (MASTER_PORT)"));
  }
  if (error == EADDRNOTAVAIL) {
    return absl::FailedPreconditionError(absl::StrCat(
        what,
        ": it is no address of this host: rank 0 serves the store, so MASTER_ADDR must be one of "
        "rank 0's host"));
  }
  return absl::ErrnoToStatus(error, what);
}

}  // namespace

absl::StatusOr<Listener> Listen(const ResolvedAddress& address) {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return CannotServe(address, errno);
  Listener listener;
  listener.fd = fd;
  listener.family = address.family();
  const char* path = nullptr;
  bool is_private = true;
  if (address.family() == AF_UNIX) {
    path = reinterpret_cast<const sockaddr_un&>(address.storage).sun_path;
    // The file gets the mode of the socket: a chmod of the path could meet another file.
    is_private = fchmod(fd, 0600) == 0;
  } else {
    // A port whose last connections are in TIME_WAIT is free; one that somebody listens on is not.
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  ResolvedAddress bound;
  bound.size = sizeof(bound.storage);
  const bool is_bound = is_private && bind(fd, reinterpret_cast<const sockaddr*>(&address.storage),
                                           address.size) == 0;
  if (is_bound && path != nullptr) {
    struct stat file = {};
    if (lstat(path, &file) == 0 && S_ISSOCK(file.st_mode)) {
      listener.path = path;
      listener.device = file.st_dev;
      listener.inode = file.st_ino;
    }
  }
  if (!is_bound || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.size) != 0) {
    const int number = errno;
    RemoveSocket(listener);
    close(fd);
    return CannotServe(address, number);
  }
  if (path == nullptr) listener.address = bound.Numeric();
  return listener;
}

void RemoveSocket(const Listener& listener) {
  struct stat file = {};
  if (listener.path.empty() || lstat(listener.path.c_str(), &file) != 0) return;
  if (file.st_dev != listener.device || file.st_ino != listener.inode) return;
  unlink(listener.path.c_str());
}

absl::StatusOr<int> StartConnect(const ResolvedAddress& address) {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "no socket");
  if (address.family() != AF_UNIX) DisableDelay(fd);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 &&
      errno != EINPROGRESS && errno != EINTR) {
    const int number = errno;
    close(fd);
    if (number == ECONNREFUSED) return absl::UnavailableError("connection refused");
    // Of a unix socket: the others that wait to be accepted are as many as may.
    if (number == EAGAIN) return absl::UnavailableError("too many others connect at this moment");
    return absl::ErrnoToStatus(number, "connection failed");
  }
  return fd;
}

absl::StatusOr<uid_t> PeerUser(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return absl::UnknownError(absl::ErrnoToStatus(errno, "no peer credentials").message());
  }
  return peer.uid;
}

TcpAddress LocalAddress(int fd) {
  ResolvedAddress local;
  local.size = sizeof(local.storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local.storage), &local.size) != 0) return {};
  return local.Numeric();
}

void DisableDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace muster::store_internal

#include "muster/backends/reference/descriptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace muster::reference {
namespace {

struct FreeAddressInfo {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};
using AddressInfo = std::unique_ptr<addrinfo, FreeAddressInfo>;

absl::StatusOr<AddressInfo> Resolve(const std::string& address, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* info = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &info);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the address \"", address,
                     "\" is not a numeric IPv4 or IPv6 address: ", gai_strerror(error)));
  }
  return AddressInfo(info);
}

absl::Status SystemError(absl::string_view what, const std::string& address) {
  return absl::UnavailableError(absl::StrCat(what, " ", address, ": ", ErrorText(errno)));
}

Descriptor NewSocket(const addrinfo& info) {
  return Descriptor(socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

std::string ErrorText(int error) { return std::generic_category().message(error); }

Descriptor::Descriptor(int fd) : fd_(fd), made_in_(ForkGeneration()) {
  if (fd >= 0) guard_ = ForkGuardedFd(fd);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      made_in_(other.made_in_),
      guard_(std::move(other.guard_)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
    made_in_ = other.made_in_;
    guard_ = std::move(other.guard_);
  }
  return *this;
}

void Descriptor::Shutdown() {
  if (MadeHere()) shutdown(fd_, SHUT_RDWR);
}

void Descriptor::Close() {
  const bool ours = MadeHere();
  guard_.Reset();
  if (ours) close(fd_);
  fd_ = -1;
}

absl::StatusOr<ListeningSocket> Listen(const std::string& address) {
  absl::StatusOr<AddressInfo> info = Resolve(address, 0);
  if (!info.ok()) return info.status();
  ListeningSocket result;
  result.socket = NewSocket(**info);
  sockaddr_storage bound = {};
  socklen_t length = sizeof(bound);
  if (!result.socket.open() ||
      bind(result.socket.fd(), (*info)->ai_addr, (*info)->ai_addrlen) != 0 ||
      listen(result.socket.fd(), SOMAXCONN) != 0 ||
      getsockname(result.socket.fd(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return SystemError("cannot listen on", address);
  }
  result.port =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                        : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return result;
}

absl::StatusOr<Descriptor> StartConnect(const std::string& address, int port) {
  absl::StatusOr<AddressInfo> info = Resolve(address, port);
  if (!info.ok()) return info.status();
  Descriptor result = NewSocket(**info);
  if (!result.open() ||
      (connect(result.fd(), (*info)->ai_addr, (*info)->ai_addrlen) != 0 && errno != EINPROGRESS)) {
    return SystemError("cannot connect to", absl::StrCat(address, " port ", port));
  }
  SetNoDelay(result);
  return result;
}

absl::StatusOr<Descriptor> Accept(const Descriptor& listening) {
  Descriptor result(accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (result.open()) {
    SetNoDelay(result);
    return result;
  }
  // Descriptors or memory that ran out will not come back by waiting; all else concerns one
  // connection that is gone already.
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot accept a connection: ", ErrorText(errno)));
  }
  return Descriptor();
}

void SetNoDelay(const Descriptor& socket) {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace muster::reference

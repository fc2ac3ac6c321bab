// A file descriptor with an owner, and the sockets that the reference backend makes.
#ifndef MUSTER_BACKENDS_REFERENCE_DESCRIPTOR_H_
#define MUSTER_BACKENDS_REFERENCE_DESCRIPTOR_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/platform/fork_guard.h"

namespace muster::reference {

// Closes what it owns, once. In a forked child it owns nothing: there the fork guard closed the
// descriptor at once, and its number may already be somebody else's. Move-only, not thread-safe.
class [[nodiscard]] Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd);
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { Close(); }

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  // Ends a connection in both directions: the peer sees the end, and so does whoever polls here.
  void Shutdown();
  void Close();

 private:
  bool MadeHere() const { return fd_ >= 0 && made_in_ == ForkGeneration(); }

  int fd_ = -1;
  uint64_t made_in_ = 0;
  ForkGuardedFd guard_;
};

// All sockets are non-blocking and close-on-exec. Errors: Unavailable with the address and what the
// system said; InvalidArgument for an address that is not numeric.

struct ListeningSocket {
  Descriptor socket;
  int port = 0;
};
// On a port that the system chooses.
absl::StatusOr<ListeningSocket> Listen(const std::string& address);

// Starts to connect: the socket becomes writable once it is connected or has failed.
absl::StatusOr<Descriptor> StartConnect(const std::string& address, int port);

// The next connection that waits, or a closed Descriptor when none does.
absl::StatusOr<Descriptor> Accept(const Descriptor& listening);

// Small messages leave at once.
void SetNoDelay(const Descriptor& socket);

// "Connection refused", for an errno.
std::string ErrorText(int error);

}  // namespace muster::reference

#endif  // MUSTER_BACKENDS_REFERENCE_DESCRIPTOR_H_

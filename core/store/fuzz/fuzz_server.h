// A store's server that is fuzzed, with one honest session beside the fuzzed connection; and one
// that lies, for a client that is fuzzed.
#ifndef MUSTER_CORE_STORE_FUZZ_FUZZ_SERVER_H_
#define MUSTER_CORE_STORE_FUZZ_FUZZ_SERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/tcp_address.h"
#include "muster/core/store/tcp_server_core.h"
#include "muster/core/store/wire.h"

namespace muster::store_fuzz {

// One connection, blocking. Each wait is bounded: beyond it the process ends, as a hang is a find.
class FuzzConnection {
 public:
  explicit FuzzConnection(const std::string& address);
  explicit FuzzConnection(int fd);
  ~FuzzConnection();
  FuzzConnection(const FuzzConnection&) = delete;
  FuzzConnection& operator=(const FuzzConnection&) = delete;

  // Hello and Challenge.
  void Greet();
  // All of the greeting, as `rank`.
  void Open(int rank);

  // The same as the server: of a client that comes with Hello and then Open.
  void Challenge();
  void Welcome();

  // False when the other end has closed it.
  bool Send(absl::string_view bytes);
  // A frame with this message and the right seal.
  bool SendSealed(absl::string_view message);
  // The next message; nothing at the end of the connection.
  std::optional<store_internal::Message> Receive();
  // Says that no more comes, and waits until the other end has closed its side, too.
  void Finish();

 private:
  int fd_;
  std::string nonce_;
  std::string server_nonce_;
  std::optional<store_internal::FrameSeal> seal_;
  store_internal::FrameReader reader_;
};

// The sockets are unix sockets, which leave no ports behind, and treated as TCP: with seals.
class FuzzServer {
 public:
  static constexpr int kWorldSize = 3;

  FuzzServer();
  ~FuzzServer();
  FuzzServer(const FuzzServer&) = delete;
  FuzzServer& operator=(const FuzzServer&) = delete;

  const std::string& address() const { return address_; }

  // The honest session of rank 0 is still served, and has the keys that it set.
  void CheckHonestSession();

 private:
  std::string address_;  // a name without a file
  std::unique_ptr<ControlThread> control_;
  std::shared_ptr<store_internal::TcpServerCore> core_;
  std::unique_ptr<FuzzConnection> honest_;
  uint64_t requests_ = 0;
};

// Where it listens, on the loopback interface. Whoever connects is the caller's to lie to.
class LyingServer {
 public:
  LyingServer();
  ~LyingServer();
  LyingServer(const LyingServer&) = delete;
  LyingServer& operator=(const LyingServer&) = delete;

  std::string address() const { return listener_.ToString(); }
  static const char* token();

  // The next client. Its connection leaves nothing behind in the system.
  std::unique_ptr<FuzzConnection> Accept();

 private:
  store_internal::Listener listener_;
};

}  // namespace muster::store_fuzz

#endif  // MUSTER_CORE_STORE_FUZZ_FUZZ_SERVER_H_

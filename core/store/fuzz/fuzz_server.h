// A store's server that is fuzzed, with one honest session beside the fuzzed connection.
#ifndef MUSTER_CORE_STORE_FUZZ_FUZZ_SERVER_H_
#define MUSTER_CORE_STORE_FUZZ_FUZZ_SERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/tcp_server_core.h"
#include "muster/core/store/wire.h"

namespace muster::store_fuzz {

// One connection, blocking. Each wait is bounded: beyond it the process ends, as a hang is a find.
class FuzzConnection {
 public:
  explicit FuzzConnection(const std::string& address);
  ~FuzzConnection();
  FuzzConnection(const FuzzConnection&) = delete;
  FuzzConnection& operator=(const FuzzConnection&) = delete;

  // Hello and Challenge.
  void Greet();
  // All of the greeting, as `rank`.
  void Open(int rank);

  // False when the server has closed it.
  bool Send(absl::string_view bytes);
  // A frame with this message and the right seal.
  bool SendSealed(absl::string_view message);
  // The next message; nothing at the end of the connection.
  std::optional<store_internal::Message> Receive();
  // Says that no more comes, and waits until the server has closed its side, too.
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

}  // namespace muster::store_fuzz

#endif  // MUSTER_CORE_STORE_FUZZ_FUZZ_SERVER_H_

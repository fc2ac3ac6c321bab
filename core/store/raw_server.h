// A store's server by hand, for the tests of its client.
#ifndef MUSTER_CORE_STORE_RAW_SERVER_H_
#define MUSTER_CORE_STORE_RAW_SERVER_H_

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/store/auth.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_address.h"
#include "muster/core/store/tcp_test_util.h"
#include "muster/core/store/wire.h"

namespace muster::store_testing {

// For one client at a time; sends only what the test says.
class RawServer {
 public:
  explicit RawServer(std::string token) : token_(std::move(token)) {
    auto listener =
        store_internal::Listen(store_internal::Resolve({"127.0.0.1", 0}, Soon())->front());
    EXPECT_TRUE(listener.ok()) << listener.status();
    if (listener.ok()) listener_ = *listener;
  }
  ~RawServer() { close(listener_.fd); }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  std::string address() const { return listener_.address.ToString(); }

  // The next client, of which nothing is read yet.
  std::unique_ptr<RawConnection> Accept() {
    pollfd poller = {listener_.fd, POLLIN, 0};
    EXPECT_EQ(poll(&poller, 1, static_cast<int>(absl::ToInt64Milliseconds(Patience()))), 1);
    return std::make_unique<RawConnection>(accept4(listener_.fd, nullptr, nullptr, SOCK_CLOEXEC));
  }

  // Greets the next client up to its last word. The answer to that is the test's.
  std::unique_ptr<RawConnection> Greet() {
    auto session = Accept();
    const auto hello = session->Receive();
    EXPECT_TRUE(hello.has_value());
    const std::string nonce = std::get<store_internal::Hello>(*hello).nonce;
    session->Send(store_internal::EncodeFrame(
        store_internal::Challenge{Nonce(), *store_internal::ServerProof(token_, nonce, Nonce())}));
    EXPECT_TRUE(session->Receive().has_value());
    session->StartSealing(*store_internal::FrameSeal::Create(
        store_internal::FrameSeal::Side::kServer, token_, nonce, Nonce()));
    return session;
  }

 private:
  const std::string token_;
  store_internal::Listener listener_;
};

}  // namespace muster::store_testing

#endif  // MUSTER_CORE_STORE_RAW_SERVER_H_

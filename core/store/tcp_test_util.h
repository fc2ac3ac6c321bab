// What tests of the TCP store share: a fixture with one server and its clients, and connections
// made by hand.
#ifndef MUSTER_CORE_STORE_TCP_TEST_UTIL_H_
#define MUSTER_CORE_STORE_TCP_TEST_UTIL_H_

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_address.h"
#include "muster/core/store/tcp_handshake.h"
#include "muster/core/store/tcp_store.h"
#include "muster/core/store/tcp_store_server.h"
#include "muster/core/store/wire.h"

namespace muster::store_testing {

inline constexpr int kWorldSize = 3;

inline SessionInfo Info(int rank) {
  return {rank, kWorldSize, "a", 100 + rank, 1000u + static_cast<uint64_t>(rank)};
}

// Of one end, where it need not be another each time.
inline std::string Nonce() { return std::string(store_internal::kNonceBytes, 'n'); }

inline int OpenDescriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// A connection made by hand.
class RawConnection {
 public:
  explicit RawConnection(const std::string& address) : reader_(store_internal::kMaxResponseBytes) {
    const auto fd =
        store_internal::StartConnect(store_internal::ResolveStore(address, Soon())->front());
    EXPECT_TRUE(fd.ok()) << fd.status();
    fd_ = fd.ok() ? *fd : -1;
  }
  explicit RawConnection(int fd) : fd_(fd), reader_(store_internal::kMaxResponseBytes) {}
  explicit RawConnection(store_internal::HandshakeResult opened)
      : fd_(opened.fd), seal_(std::move(opened.seal)), reader_(store_internal::kMaxResponseBytes) {}
  ~RawConnection() { close(fd_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  void Send(absl::string_view bytes) {
    while (!bytes.empty()) {
      ASSERT_TRUE(Wait(POLLOUT));
      const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0) return;  // closed by the other side, which then shows when it is read
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }

  // The next frame that an honest end would send.
  std::string Frame(const store_internal::Message& message) {
    std::string frame = store_internal::EncodeFrame(message);
    EXPECT_TRUE(!seal_.has_value() || seal_->Seal(&frame).ok());
    return frame;
  }

  void StartSealing(store_internal::FrameSeal seal) { seal_ = std::move(seal); }

  // The next message; nothing at the end of the connection.
  std::optional<store_internal::Message> Receive() {
    for (;;) {
      const auto body = reader_.Next();
      EXPECT_TRUE(body.ok()) << body.status();
      if (body->has_value()) {
        const absl::StatusOr<absl::string_view> opened =
            seal_.has_value() ? seal_->Open(**body) : **body;
        EXPECT_TRUE(opened.ok()) << opened.status();
        if (!opened.ok()) return std::nullopt;
        const auto message = store_internal::DecodeBody(*opened);
        EXPECT_TRUE(message.ok()) << message.status();
        return *message;
      }
      if (!Wait(POLLIN)) return std::nullopt;
      char bytes[4096];
      const ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
      if (count <= 0) return std::nullopt;
      reader_.Append(absl::string_view(bytes, static_cast<size_t>(count)));
    }
  }

  // Waits for the other side to close it.
  bool AwaitEnd() {
    while (Receive().has_value()) {
    }
    pollfd poller = {fd_, POLLIN, 0};
    return poll(&poller, 1, 0) == 1;
  }

 private:
  bool Wait(int16_t events) {
    pollfd poller = {fd_, events, 0};
    const int ready = poll(&poller, 1, static_cast<int>(absl::ToInt64Milliseconds(Patience())));
    EXPECT_EQ(ready, 1) << "nothing came";
    return ready == 1;
  }

  int fd_;
  std::optional<store_internal::FrameSeal> seal_;
  store_internal::FrameReader reader_;
};

// Why the server ends the connection, after all else that it answers.
inline std::string LastWord(RawConnection& connection) {
  std::string word = "none";
  while (const auto message = connection.Receive()) {
    if (const auto* refused = std::get_if<store_internal::Refused>(&*message)) {
      word = std::string(refused->status.message());
    }
  }
  return word;
}

inline store_internal::Request SetRequest(uint64_t id, const std::string& key) {
  store_internal::Request request;
  request.type = store_internal::Request::Type::kSet;
  request.id = id;
  request.key = key;
  return request;
}

class TcpStoreFixture : public ::testing::Test {
 protected:
  TcpStoreFixture() {
    auto control = ControlThread::Start();
    EXPECT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
    server_options_.world_size = kWorldSize;
    server_options_.token = token_;
    server_options_.served_by = "rank 0, host a, pid 7";
  }

  std::unique_ptr<TcpStoreServer> Serve() {
    auto server = TcpStoreServer::Start(server_options_);
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }

  TcpStore::Options ClientOptions(const std::string& address, int rank) {
    TcpStore::Options options;
    options.address = address;
    options.token = token_;
    options.session = Info(rank);
    options.heartbeat_timeout = Patience();
    options.deadline = Soon();
    options.control_thread = control_.get();
    return options;
  }

  std::unique_ptr<TcpStore> Connect(const std::string& address, int rank) {
    auto store = TcpStore::Connect(ClientOptions(address, rank));
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // Why no session opens, without a second attempt where what is said there has no proof.
  absl::Status RefusalOf(const std::string& address, const std::string& token, int rank) {
    store_internal::HandshakeOptions options{address, token, Info(rank), Patience(), Soon()};
    options.unproven_patience = absl::ZeroDuration();
    auto opened = store_internal::OpenSession(options);
    if (!opened.ok()) return opened.status();
    close(opened->fd);
    return absl::OkStatus();
  }

  // A session by hand, which sends only what the test says.
  store_internal::HandshakeResult OpenByHand(const std::string& address, int rank,
                                             absl::Duration heartbeat_timeout) {
    auto opened =
        store_internal::OpenSession({address, token_, Info(rank), heartbeat_timeout, Soon()});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : store_internal::HandshakeResult();
  }

  // The same of another process of that rank.
  absl::StatusOr<store_internal::HandshakeResult> OpenAnother(const std::string& address, int rank,
                                                              uint64_t incarnation) {
    SessionInfo info = Info(rank);
    info.incarnation = incarnation;
    return store_internal::OpenSession({address, token_, info, absl::InfiniteDuration(), Soon()});
  }

  const std::string token_ = "the token of this job";
  std::unique_ptr<ControlThread> control_;
  TcpStoreServer::Options server_options_;
};

}  // namespace muster::store_testing

#endif  // MUSTER_CORE_STORE_TCP_TEST_UTIL_H_

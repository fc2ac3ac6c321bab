#include "muster/core/store/fuzz/fuzz_server.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/log/check.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "muster/core/store/auth.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/tcp_address.h"

namespace muster::store_fuzz {
namespace {

using store_internal::EncodeFrame;
using store_internal::FrameSeal;
using store_internal::Message;
using store_internal::Request;
using store_internal::Response;

constexpr char kToken[] = "the token";
// Nothing here waits for time.
constexpr int kHangMs = 60000;

// An abstract address: it begins with a zero byte and goes with its sockets.
socklen_t AddressOf(const std::string& name, sockaddr_un* address) {
  address->sun_family = AF_UNIX;
  CHECK_LT(name.size() + 1, sizeof(address->sun_path));
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

void Await(int fd, int16_t events) {
  pollfd poller = {fd, events, 0};
  int ready = 0;
  do {
    ready = poll(&poller, 1, kHangMs);
  } while (ready < 0 && errno == EINTR);  // by libFuzzer's own timer
  CHECK_EQ(ready, 1) << "the other end does nothing";
}

}  // namespace

FuzzConnection::FuzzConnection(const std::string& name)
    : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      reader_(store_internal::kMaxResponseBytes) {
  sockaddr_un address = {};
  const socklen_t size = AddressOf(name, &address);
  CHECK_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), size), 0);
}

FuzzConnection::FuzzConnection(int fd) : fd_(fd), reader_(store_internal::kMaxResponseBytes) {}

FuzzConnection::~FuzzConnection() { close(fd_); }

void FuzzConnection::Greet() {
  nonce_ = std::string(store_internal::kNonceBytes, 'n');
  CHECK(Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, nonce_})));
  const std::optional<Message> message = Receive();
  CHECK(message.has_value() && std::holds_alternative<store_internal::Challenge>(*message));
  server_nonce_ = std::get<store_internal::Challenge>(*message).nonce;
}

void FuzzConnection::Open(int rank) {
  static uint64_t incarnation = 0;
  Greet();
  store_internal::Open open;
  open.session = {rank, FuzzServer::kWorldSize, "a", 100 + rank, ++incarnation};
  open.proof = *store_internal::ClientProof(kToken, nonce_, server_nonce_, EncodeFrame(open));
  CHECK(Send(EncodeFrame(open)));
  seal_ = *FrameSeal::Create(FrameSeal::Side::kClient, kToken, nonce_, server_nonce_);
  const std::optional<Message> message = Receive();
  CHECK(message.has_value() && std::holds_alternative<store_internal::Welcome>(*message));
}

void FuzzConnection::Challenge() {
  const std::optional<Message> hello = Receive();
  CHECK(hello.has_value() && std::holds_alternative<store_internal::Hello>(*hello));
  nonce_ = std::get<store_internal::Hello>(*hello).nonce;
  server_nonce_ = std::string(store_internal::kNonceBytes, 'm');
  CHECK(Send(EncodeFrame(store_internal::Challenge{
      server_nonce_, *store_internal::ServerProof(kToken, nonce_, server_nonce_)})));
  const std::optional<Message> open = Receive();
  CHECK(open.has_value() && std::holds_alternative<store_internal::Open>(*open));
}

void FuzzConnection::Welcome() {
  seal_ = *FrameSeal::Create(FrameSeal::Side::kServer, kToken, nonce_, server_nonce_);
  CHECK(SendSealed(store_internal::MessageOf(EncodeFrame(store_internal::Welcome{"a liar"}))));
}

bool FuzzConnection::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    Await(fd_, POLLOUT);
    const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool FuzzConnection::SendSealed(absl::string_view message) {
  std::string frame(4, '\0');
  store_internal::ExtendFrame(&frame, message);
  CHECK_OK(seal_->Seal(&frame));
  return Send(frame);
}

std::optional<Message> FuzzConnection::Receive() {
  for (;;) {
    const absl::StatusOr<std::optional<absl::string_view>> body = reader_.Next();
    CHECK_OK(body);
    if (body->has_value()) {
      const absl::StatusOr<absl::string_view> opened =
          seal_.has_value() ? seal_->Open(**body) : **body;
      CHECK_OK(opened) << "the other end's own frame";
      const absl::StatusOr<Message> message = store_internal::DecodeBody(*opened);
      CHECK_OK(message) << "the other end's own message";
      return *message;
    }
    Await(fd_, POLLIN);
    char bytes[4096];
    const ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
    if (count <= 0) return std::nullopt;
    reader_.Append(absl::string_view(bytes, static_cast<size_t>(count)));
  }
}

void FuzzConnection::Finish() {
  shutdown(fd_, SHUT_WR);
  while (Receive().has_value()) {
  }
}

FuzzServer::FuzzServer() {
  static int servers = 0;
  address_ = absl::StrCat("muster-fuzz-", getpid(), "-", ++servers);
  absl::StatusOr<std::unique_ptr<ControlThread>> control = ControlThread::Start();
  CHECK_OK(control);
  control_ = *std::move(control);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address = {};
  const socklen_t size = AddressOf(address_, &address);
  CHECK_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
  CHECK_EQ(listen(fd, SOMAXCONN), 0);
  store_internal::TcpServerOptions options;
  options.token = kToken;
  options.served_by = "the fuzzer";
  options.engine.world_size = kWorldSize;
  options.handshake_timeout = absl::Hours(1);
  auto core = store_internal::TcpServerCore::Create(control_.get(), options,
                                                    {fd, {"127.0.0.1", 1}, AF_INET});
  CHECK_OK(core);
  core_ = *std::move(core);
  control_->Post([core = core_] { core->Begin(); });
  honest_ = std::make_unique<FuzzConnection>(address_);
  honest_->Open(0);
}

FuzzServer::~FuzzServer() {
  honest_.reset();
  auto closed = std::make_shared<absl::Notification>();
  control_->Post([core = core_, closed] { core->Close([closed] { closed->Notify(); }); });
  CHECK(closed->WaitForNotificationWithTimeout(absl::Milliseconds(kHangMs)));
  core_.reset();
  control_.reset();
}

LyingServer::LyingServer() {
  const auto resolved = store_internal::ResolveStore("127.0.0.1:0", absl::InfiniteFuture());
  CHECK_OK(resolved);
  const absl::StatusOr<store_internal::Listener> listener =
      store_internal::Listen(resolved->front());
  CHECK_OK(listener);
  listener_ = *listener;
}

LyingServer::~LyingServer() { close(listener_.fd); }

const char* LyingServer::token() { return kToken; }

std::unique_ptr<FuzzConnection> LyingServer::Accept() {
  Await(listener_.fd, POLLIN);
  const int fd = accept4(listener_.fd, nullptr, nullptr, SOCK_CLOEXEC);
  CHECK_GE(fd, 0);
  // Thousands of connections a minute would use up the ports of the client, which waits in each
  // for what may still be under way.
  const linger reset = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  return std::make_unique<FuzzConnection>(fd);
}

void FuzzServer::CheckHonestSession() {
  Request request;
  request.type = Request::Type::kSet;
  request.key = "honest";
  request.value = "value";
  request.lifetime = Lifetime::kSession;
  for (const Request::Type type : {Request::Type::kSet, Request::Type::kGet}) {
    request.type = type;
    request.id = ++requests_;
    CHECK(honest_->SendSealed(store_internal::MessageOf(EncodeFrame(request))));
    const std::optional<Message> message = honest_->Receive();
    CHECK(message.has_value()) << "the honest session was ended";
    const Response* response = std::get_if<Response>(&*message);
    CHECK(response != nullptr && response->id == request.id);
    CHECK_OK(response->status);
    if (type == Request::Type::kGet) CHECK_EQ(response->entry.value, "value");
  }
}

}  // namespace muster::store_fuzz

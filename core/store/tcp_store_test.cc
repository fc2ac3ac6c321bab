// What the TCP store promises beyond the conformance tests: strangers, broken peers, dead
// processes.

#include "muster/core/store/tcp_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/auth.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_address.h"
#include "muster/core/store/tcp_handshake.h"
#include "muster/core/store/tcp_store_server.h"
#include "muster/core/store/wire.h"

namespace muster {
namespace {

using store_internal::DecodeBody;
using store_internal::EncodeFrame;
using store_internal::FrameReader;
using store_internal::Message;
using store_internal::Request;
using store_internal::Response;
using store_testing::Get;
using store_testing::Leave;
using store_testing::Patience;
using store_testing::Promised;
using store_testing::Set;
using store_testing::Soon;
using store_testing::StartGather;
using store_testing::WatchLog;
using ::testing::HasSubstr;
using Liveness = SessionRecord::Liveness;

constexpr int kWorldSize = 3;

SessionInfo Info(int rank) {
  return {rank, kWorldSize, "a", 100 + rank, 1000u + static_cast<uint64_t>(rank)};
}

int OpenDescriptors() {
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
    const auto parsed = store_internal::ParseTcpAddress(address);
    const auto fd = store_internal::StartConnect(store_internal::Resolve(*parsed)->front());
    EXPECT_TRUE(fd.ok()) << fd.status();
    fd_ = fd.ok() ? *fd : -1;
  }
  explicit RawConnection(int fd) : fd_(fd), reader_(store_internal::kMaxResponseBytes) {}
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

  // The next message; nothing at the end of the connection.
  std::optional<Message> Receive() {
    for (;;) {
      const auto body = reader_.Next();
      EXPECT_TRUE(body.ok()) << body.status();
      if (body->has_value()) {
        const auto message = DecodeBody(**body);
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
  FrameReader reader_;
};

class TcpStoreTest : public ::testing::Test {
 protected:
  TcpStoreTest() {
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

  // A session by hand, which sends only what the test says.
  int OpenByHand(const std::string& address, int rank, absl::Duration heartbeat_timeout) {
    auto opened =
        store_internal::OpenSession({address, token_, Info(rank), heartbeat_timeout, Soon()});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? opened->fd : -1;
  }

  const std::string token_ = "the token of this job";
  std::unique_ptr<ControlThread> control_;
  TcpStoreServer::Options server_options_;
};

// --- Strangers and broken clients

TEST_F(TcpStoreTest, AStrangerWithoutTheTokenIsRefusedAndChangesNothing) {
  auto server = Serve();
  auto options = ClientOptions(server->address(), 1);
  options.token = "a guess";
  const auto refused = TcpStore::Connect(options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(server->address()));

  // One that does not care who the server is.
  RawConnection stranger(server->address());
  stranger.Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, "nonce"}));
  ASSERT_TRUE(stranger.Receive().has_value());
  store_internal::Open open;
  open.session = Info(1);
  open.proof = *store_internal::ClientProof("a guess", "nonce", "", "");
  stranger.Send(EncodeFrame(open));
  const auto answer = stranger.Receive();
  ASSERT_TRUE(answer.has_value() && std::holds_alternative<store_internal::Refused>(*answer));
  EXPECT_EQ(std::get<store_internal::Refused>(*answer).status.code(),
            absl::StatusCode::kPermissionDenied);
  stranger.Send(EncodeFrame(Request()));
  EXPECT_TRUE(server->Sessions().empty());
  EXPECT_NE(Connect(server->address(), 1), nullptr);
}

TEST_F(TcpStoreTest, WhateverAStrangerSaysFirstEndsItsConnectionAlone) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  const std::string hello =
      EncodeFrame(store_internal::Hello{store_internal::kWireVersion, "nonce"});
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4, '\xff'), std::string(64, '\0'),
        EncodeFrame(Request()), EncodeFrame(store_internal::Open()), hello + hello,
        EncodeFrame(store_internal::Welcome{"me"}), hello + EncodeFrame(Request())}) {
    RawConnection stranger(server->address());
    stranger.Send(words);
    EXPECT_TRUE(stranger.AwaitEnd());
    EXPECT_TRUE(Set(*store, "k", "v").ok());
  }
  EXPECT_EQ(server->Sessions().size(), 1u);
}

TEST_F(TcpStoreTest, AMalformedOrOversizedFrameOfASessionEndsThatSessionAlone) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  WatchLog log;
  store->Watch(kSessionKeyPrefix, log.Callback());
  const std::vector<std::string> broken = {
      std::string("\x03\0\0\0???", 7),  // no such type
      std::string("\xff\xff\xff\x7f", 4),
      EncodeFrame(store_internal::Response()),
  };
  for (size_t i = 0; i < broken.size(); ++i) {
    SessionInfo info = Info(1);
    info.incarnation = 7 + i;
    auto opened = store_internal::OpenSession(
        {server->address(), token_, info, absl::InfiniteDuration(), Soon()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    RawConnection session(opened->fd);
    session.Send(broken[i]);
    EXPECT_TRUE(session.AwaitEnd());
    EXPECT_TRUE(Set(*store, "k", "v").ok());
  }
  EXPECT_THAT(log.AwaitSession(1, Liveness::kLost).reason,
              HasSubstr("its connection was ended: a malformed frame"));
}

TEST_F(TcpStoreTest, AnotherVersionIsRefusedWithBothVersions) {
  auto server = Serve();
  RawConnection old(server->address());
  old.Send(EncodeFrame(store_internal::Hello{77, "nonce"}));
  const auto answer = old.Receive();
  ASSERT_TRUE(answer.has_value() && std::holds_alternative<store_internal::Refused>(*answer));
  EXPECT_THAT(std::string(std::get<store_internal::Refused>(*answer).status.message()),
              HasSubstr("this client 77"));
}

TEST_F(TcpStoreTest, AConnectionThatSaysNothingHoldsNobodyUpAndIsClosedAtItsBound) {
  server_options_.handshake_timeout = absl::Milliseconds(50);
  auto server = Serve();
  std::vector<std::unique_ptr<RawConnection>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<RawConnection>(server->address()));
    if (i % 2 == 0) silent.back()->Send("\x20");  // the first byte of a length
  }
  // A slow machine may take longer than the bound for an honest greeting: that one tries again.
  auto store = Connect(server->address(), 0);
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(Set(*store, "k", "v").ok());
  for (auto& connection : silent) EXPECT_TRUE(connection->AwaitEnd());
  EXPECT_TRUE(Get(*store, "k").ok());
}

TEST_F(TcpStoreTest, AHalfSentFrameOfOneSessionHoldsNoOtherUp) {
  auto server = Serve();
  RawConnection slow(OpenByHand(server->address(), 1, absl::InfiniteDuration()));
  slow.Send(EncodeFrame(Request()).substr(0, 7));
  auto store = Connect(server->address(), 0);
  EXPECT_TRUE(Set(*store, "k", "v").ok());
}

// --- Where there is no store

TEST_F(TcpStoreTest, NobodyThereIsAnErrorAtTheDeadlineThatSaysWhereAndWhatToDo) {
  auto server = Serve();
  const std::string address = server->address();
  server.reset();
  auto options = ClientOptions(address, 1);
  options.deadline = MonotonicNow() + absl::Milliseconds(50);
  const auto store = TcpStore::Connect(options);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDeadlineExceeded);
  const std::string message(store.status().message());
  EXPECT_THAT(message, HasSubstr(absl::StrCat("rank 1 cannot reach the store at ", address)));
  EXPECT_THAT(message, HasSubstr("connection refused"));
  options.deadline = absl::InfinitePast();
  EXPECT_EQ(TcpStore::Connect(options).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(TcpStoreTest, AServerThatStartsLaterThanItsClientsIsFound) {
  auto server = Serve();
  server_options_.address = server->address();
  server.reset();
  std::unique_ptr<TcpStore> store;
  std::thread client([&] { store = Connect(server_options_.address, 1); });
  server = Serve();
  client.join();
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(Set(*store, "k", "v").ok());
}

TEST_F(TcpStoreTest, SomethingElseThatListensThereIsTold) {
  const auto listener = store_internal::Listen(store_internal::Resolve({"127.0.0.1", 0})->front());
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::thread other([&] {
    pollfd poller = {listener->fd, POLLIN, 0};
    ASSERT_EQ(poll(&poller, 1, static_cast<int>(absl::ToInt64Milliseconds(Patience()))), 1);
    RawConnection connection(accept4(listener->fd, nullptr, nullptr, SOCK_CLOEXEC));
    connection.Send("HTTP/1.1 400 Bad Request\r\n\r\n");
    connection.AwaitEnd();
  });
  const auto store = TcpStore::Connect(ClientOptions(listener->address.ToString(), 1));
  other.join();
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition) << store.status();
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("is not a muster store"));
  close(listener->fd);
}

TEST_F(TcpStoreTest, SomethingThatAcceptsAndSaysNothingIsToldAtTheDeadline) {
  const auto listener = store_internal::Listen(store_internal::Resolve({"127.0.0.1", 0})->front());
  ASSERT_TRUE(listener.ok()) << listener.status();
  auto options = ClientOptions(listener->address.ToString(), 1);
  options.deadline = MonotonicNow() + absl::Milliseconds(50);
  const auto store = TcpStore::Connect(options);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("said nothing"));
  close(listener->fd);
}

TEST_F(TcpStoreTest, MisusesAreErrorsAtOnce) {
  EXPECT_EQ(TcpStore::Connect(ClientOptions("nowhere", 0)).status().code(),
            absl::StatusCode::kInvalidArgument);
  auto options = ClientOptions("127.0.0.1:1", 0);
  options.control_thread = nullptr;
  EXPECT_EQ(TcpStore::Connect(options).status().code(), absl::StatusCode::kInvalidArgument);
  Promised<absl::Status> inside;
  control_->Post([&, done = inside.Callback()]() mutable {
    done(TcpStore::Connect(ClientOptions("127.0.0.1:1", 0)).status());
  });
  EXPECT_EQ(inside.Get().code(), absl::StatusCode::kFailedPrecondition);

  server_options_.address = "0.0.0.0:0";
  const auto open_to_all = TcpStoreServer::Start(server_options_);
  EXPECT_EQ(open_to_all.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(open_to_all.status().message()), HasSubstr("beyond_this_host"));
  server_options_.beyond_this_host = true;
  EXPECT_TRUE(TcpStoreServer::Start(server_options_).ok());
  server_options_.world_size = 0;
  EXPECT_EQ(TcpStoreServer::Start(server_options_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// --- The server's life

TEST_F(TcpStoreTest, APortThatIsTakenIsToldAndOneThatWasStoppedIsFreeAtOnce) {
  auto server = Serve();
  server_options_.address = server->address();
  const auto taken = TcpStoreServer::Start(server_options_);
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr(server->address()));
  for (int cycle = 0; cycle < 20; ++cycle) {
    auto store = Connect(server_options_.address, 1);
    ASSERT_NE(store, nullptr);
    EXPECT_TRUE(Set(*store, "k", "v").ok());
    if (cycle % 2 == 0) {
      EXPECT_TRUE(Leave(*store).ok());
    }
    EXPECT_EQ(server->Stop(MonotonicNow()).ok(), cycle % 2 == 0);
    server = Serve();
    ASSERT_NE(server, nullptr);
  }
}

TEST_F(TcpStoreTest, TheServerLeavesLast) {
  auto server = Serve();
  auto first = Connect(server->address(), 0);
  auto second = Connect(server->address(), 1);
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    EXPECT_TRUE(server->Stop(Soon()).ok());
    stopped = true;
  });
  EXPECT_TRUE(Leave(*first).ok());
  first.reset();
  EXPECT_TRUE(Set(*second, "k", "still served").ok());
  EXPECT_FALSE(stopped);
  EXPECT_TRUE(Leave(*second).ok());
  stopper.join();
  EXPECT_TRUE(server->Stop(Soon()).ok());
}

TEST_F(TcpStoreTest, AtItsBoundTheServerEndsAndNamesWhoHadNotLeft) {
  auto server = Serve();
  auto store = Connect(server->address(), 2);
  const absl::Status stopped = server->Stop(MonotonicNow() + absl::Milliseconds(20));
  EXPECT_EQ(stopped.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(stopped.message()), HasSubstr("rank 2 (host a, pid 102)"));
  const absl::Status lost = Set(*store, "k", "v").status();
  EXPECT_EQ(lost, absl::UnavailableError(absl::StrCat("the store (rank 0, host a, pid 7, at ",
                                                      server->address(),
                                                      ") was lost: connection closed")));
  EXPECT_EQ(Set(*store, "k", "v").status(), lost);
}

TEST_F(TcpStoreTest, AServerOnTheClientsControlThreadServesAndStops) {
  server_options_.control_thread = control_.get();
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  EXPECT_TRUE(Set(*store, "k", "v").ok());
  Promised<absl::Status> inside;
  control_->Post([&, done = inside.Callback()]() mutable { done(server->Stop(Soon())); });
  EXPECT_EQ(inside.Get().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Leave(*store).ok());
  EXPECT_TRUE(server->Stop(Soon()).ok());
}

TEST_F(TcpStoreTest, AGoodbyeThatHasArrivedCountsBeforeADuplicateIsSeen) {
  auto server_control = *ControlThread::Start();
  server_options_.control_thread = server_control.get();
  auto server = Serve();
  auto before = Connect(server->address(), 1);
  // A second process of rank 1 introduces itself up to the last word.
  RawConnection successor(server->address());
  successor.Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, "nonce"}));
  const auto challenge = successor.Receive();
  ASSERT_TRUE(challenge.has_value());
  store_internal::Open open;
  open.session = Info(1);
  open.proof = *store_internal::ClientProof(
      token_, "nonce", std::get<store_internal::Challenge>(*challenge).nonce, EncodeFrame(open));
  // While the server is busy the last word comes, and then the first one's goodbye.
  absl::Notification busy;
  absl::Notification go_on;
  server_control->Post([&] {
    busy.Notify();
    go_on.WaitForNotification();
  });
  busy.WaitForNotification();
  successor.Send(EncodeFrame(open));
  before.reset();
  go_on.Notify();
  const auto answer = successor.Receive();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(std::holds_alternative<store_internal::Welcome>(*answer));
}

TEST_F(TcpStoreTest, NothingIsLeftWhenBothEndsAreGone) {
  control_.reset();
  {
    auto warm_up = ControlThread::Start();
  }
  const int before = OpenDescriptors();
  for (int cycle = 0; cycle < 5; ++cycle) {
    auto control = ControlThread::Start();
    ASSERT_TRUE(control.ok());
    control_ = *std::move(control);
    auto server = Serve();
    auto first = Connect(server->address(), 0);
    auto second = Connect(server->address(), 1);
    EXPECT_TRUE(Set(*first, "k", "v").ok());
    EXPECT_TRUE(Leave(*second).ok());
    server.reset();
    first.reset();
    second.reset();
    control_.reset();
    EXPECT_EQ(OpenDescriptors(), before);
  }
}

// --- Heartbeats and deaths

TEST_F(TcpStoreTest, AClientThatFallsSilentIsLostAndFenced) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  WatchLog log;
  store->Watch(kSessionKeyPrefix, log.Callback());
  RawConnection silent(OpenByHand(server->address(), 1, absl::Milliseconds(200)));
  EXPECT_EQ(log.AwaitSession(1, Liveness::kLost).reason, "no heartbeat for 200ms");
  Request request;
  request.type = Request::Type::kSet;
  request.id = 5;
  request.key = "k";
  silent.Send(EncodeFrame(request));
  const auto answer = silent.Receive();
  ASSERT_TRUE(answer.has_value() && std::holds_alternative<Response>(*answer));
  EXPECT_EQ(std::get<Response>(*answer).status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Get(*store, "k").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TcpStoreTest, IdleClientsWithHeartbeatsAreKept) {
  auto server = Serve();
  auto options = ClientOptions(server->address(), 0);
  options.heartbeat_timeout = store_testing::Patience() / 20;
  auto store = TcpStore::Connect(options);
  ASSERT_TRUE(store.ok()) << store.status();
  Promised<absl::Status> later;
  control_->PostAt(control_->Now() + 2 * options.heartbeat_timeout,
                   [done = later.Callback()]() mutable { done(absl::OkStatus()); });
  EXPECT_TRUE(later.Get().ok());
  EXPECT_TRUE(Set(**store, "k", "v").ok());
}

TEST_F(TcpStoreTest, AServerThatFallsSilentIsLost) {
  const auto listener = store_internal::Listen(store_internal::Resolve({"127.0.0.1", 0})->front());
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::unique_ptr<RawConnection> session;
  std::thread silent([&] {
    pollfd poller = {listener->fd, POLLIN, 0};
    ASSERT_EQ(poll(&poller, 1, static_cast<int>(absl::ToInt64Milliseconds(Patience()))), 1);
    session =
        std::make_unique<RawConnection>(accept4(listener->fd, nullptr, nullptr, SOCK_CLOEXEC));
    const auto hello = session->Receive();
    ASSERT_TRUE(hello.has_value());
    const std::string nonce = std::get<store_internal::Hello>(*hello).nonce;
    session->Send(EncodeFrame(
        store_internal::Challenge{"n", *store_internal::ServerProof(token_, nonce, "n")}));
    ASSERT_TRUE(session->Receive().has_value());
    session->Send(EncodeFrame(store_internal::Welcome{"a stopped process"}));
  });
  auto options = ClientOptions(listener->address.ToString(), 0);
  options.heartbeat_timeout = absl::Milliseconds(200);
  auto store = TcpStore::Connect(options);
  silent.join();
  ASSERT_TRUE(store.ok()) << store.status();
  WatchLog log;
  (*store)->Watch("", log.Callback());
  auto gather = StartGather(**store, "g", 0, 2, "", absl::InfiniteFuture());
  EXPECT_EQ(log.AwaitEnd().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(gather.Get().status().message()),
              HasSubstr("the store (a stopped process, at "));
  EXPECT_THAT(std::string(gather.Get().status().message()),
              HasSubstr("was lost: no sign of life for 200ms"));
  close(listener->fd);
}

TEST_F(TcpStoreTest, ALauncherThatIsQuickEnoughNamesTheCauseOfAClosedConnection) {
  server_options_.loss_grace = Patience();
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  WatchLog log;
  store->Watch(kSessionKeyPrefix, log.Callback());
  {
    RawConnection dies(OpenByHand(server->address(), 1, absl::InfiniteDuration()));
    log.AwaitSession(1, Liveness::kLive);
  }
  server->DeclareLost(1, "killed by signal 9");
  EXPECT_EQ(log.AwaitSession(1, Liveness::kLost).WhatHappened(),
            "rank 1 (host a, pid 101) was lost: killed by signal 9");
}

// Runs `body` in a child process that is killed when the test ends. Only while this process has no
// other thread: the child makes threads of its own.
class ChildProcess {
 public:
  template <class Body>
  explicit ChildProcess(Body body) {
    pid_ = fork();
    if (pid_ == 0) {
      body();
      _exit(0);
    }
  }
  ~ChildProcess() { Kill(); }

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

struct Pipe {
  Pipe() { EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  std::string ReadLine() const {
    std::string line;
    for (char byte; read(ends[0], &byte, 1) == 1 && byte != '\n';) line.push_back(byte);
    return line;
  }
  void WriteLine(const std::string& line) const {
    const std::string text = line + "\n";
    EXPECT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  int ends[2];
};

TEST_F(TcpStoreTest, AKilledProcessIsLostWithinASecondEvenWhileAChildOfItsLives) {
  control_.reset();  // no thread but this one: see ChildProcess
  const Pipe address;
  const Pipe grandchild_lives;
  ChildProcess process([&] {
    auto control = ControlThread::Start();
    control_ = *std::move(control);
    auto options = ClientOptions(address.ReadLine(), 1);
    options.heartbeat_timeout = absl::InfiniteDuration();  // only the connection's end can tell
    auto store = TcpStore::Connect(options);
    if (!store.ok()) _exit(1);
    if (fork() == 0) {
      // Has what its parent had, but for the connection; and lives until the test is over.
      close(grandchild_lives.ends[1]);
      close(address.ends[1]);
      char byte;
      while (read(grandchild_lives.ends[0], &byte, 1) > 0) {
      }
      _exit(0);
    }
    const auto set = Set(**store, "forked", "yes");
    pause();
  });
  control_ = *ControlThread::Start();
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  WatchLog log;
  store->Watch("", log.Callback());
  address.WriteLine(server->address());
  log.AwaitPut("forked", "yes");
  process.Kill();
  const absl::Time dead = MonotonicNow();
  const SessionRecord record = log.AwaitSession(1, Liveness::kLost);
  EXPECT_THAT(record.reason, HasSubstr("its connection"));
  EXPECT_LT(MonotonicNow() - dead, TimeoutScale() * absl::Seconds(1));
}

TEST_F(TcpStoreTest, AForkedChildNeitherUsesNorEndsItsParentsSession) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  EXPECT_TRUE(Set(*store, "k", "v").ok());
  {
    const pid_t child = fork();
    if (child == 0) {
      alarm(static_cast<unsigned>(absl::ToInt64Seconds(Patience())));
      store.reset();
      server.reset();
      control_.reset();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(Get(*store, "k")->value, "v");
  EXPECT_TRUE(Leave(*store).ok());
}

}  // namespace
}  // namespace muster

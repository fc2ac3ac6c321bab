// What the TCP client promises beyond the conformance tests: no store there, silence, deaths,
// forks.

#include "muster/core/store/tcp_store.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/raw_server.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_address.h"
#include "muster/core/store/tcp_handshake.h"
#include "muster/core/store/tcp_store_server.h"
#include "muster/core/store/tcp_test_util.h"
#include "muster/core/store/wire.h"

namespace muster::store_testing {
namespace {

using store_internal::Request;
using store_internal::Response;
using ::testing::HasSubstr;
using Liveness = SessionRecord::Liveness;

class TcpStoreTest : public TcpStoreFixture {};

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

// Many a name has two addresses, and one of them may lead nowhere.
TEST_F(TcpStoreTest, AnAddressThatDoesNotAnswerLeavesTimeForTheNextOne) {
  const auto numeric = [](const std::string& address) {
    return store_internal::Resolve(*store_internal::ParseTcpAddress(address), Soon())->front();
  };
  // It accepts connections, as the system does for it, and says nothing.
  const auto silent = store_internal::Listen(numeric("127.0.0.1:0"));
  ASSERT_TRUE(silent.ok()) << silent.status();
  auto server = Serve();
  store_internal::HandshakeOptions options{"node-7:1", token_, Info(1), Patience(),
                                           MonotonicNow() + TimeoutScale() * absl::Seconds(6)};
  options.lookup = [addresses =
                        std::vector<store_internal::ResolvedAddress>{
                            numeric(silent->address.ToString()), numeric(server->address())}](
                       const store_internal::TcpAddress&) { return addresses; };
  auto opened = store_internal::OpenSession(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->served_by, "rank 0, host a, pid 7");
  close(opened->fd);
  close(silent->fd);
}

TEST_F(TcpStoreTest, SomethingElseThatListensThereIsTold) {
  const auto listener =
      store_internal::Listen(store_internal::Resolve({"127.0.0.1", 0}, Soon())->front());
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::thread other([&] {
    pollfd poller = {listener->fd, POLLIN, 0};
    ASSERT_EQ(poll(&poller, 1, static_cast<int>(absl::ToInt64Milliseconds(Patience()))), 1);
    RawConnection connection(accept4(listener->fd, nullptr, nullptr, SOCK_CLOEXEC));
    connection.Send("HTTP/1.1 400 Bad Request\r\n\r\n");
    connection.AwaitEnd();
  });
  const absl::Status refused = RefusalOf(listener->address.ToString(), token_, 1);
  other.join();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is not a muster store"));
  close(listener->fd);
}

TEST_F(TcpStoreTest, SomethingThatAcceptsAndSaysNothingIsToldAtTheDeadline) {
  const auto listener =
      store_internal::Listen(store_internal::Resolve({"127.0.0.1", 0}, Soon())->front());
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
  server_options_.token = "";
  EXPECT_EQ(TcpStoreServer::Start(server_options_).status(), open_to_all.status())
      << "where other hosts reach it a store has a token, whoever starts it";
  server_options_.token = token_;
  server_options_.world_size = 0;
  EXPECT_EQ(TcpStoreServer::Start(server_options_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// --- Heartbeats

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
  silent.Send(silent.Frame(request));
  const auto answer = silent.Receive();
  ASSERT_TRUE(answer.has_value() && std::holds_alternative<Response>(*answer));
  EXPECT_EQ(std::get<Response>(*answer).status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Get(*store, "k").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TcpStoreTest, IdleClientsWithHeartbeatsAreKept) {
  auto server = Serve();
  auto options = ClientOptions(server->address(), 0);
  options.heartbeat_timeout = Patience() / 20;
  auto store = TcpStore::Connect(options);
  ASSERT_TRUE(store.ok()) << store.status();
  Promised<absl::Status> later;
  control_->PostAt(control_->Now() + 2 * options.heartbeat_timeout,
                   [done = later.Callback()]() mutable { done(absl::OkStatus()); });
  EXPECT_TRUE(later.Get().ok());
  EXPECT_TRUE(Set(**store, "k", "v").ok());
}

TEST_F(TcpStoreTest, AServerThatFallsSilentIsLost) {
  RawServer server(token_);
  std::unique_ptr<RawConnection> session;
  std::thread silent([&] {
    session = server.Greet();
    session->Send(session->Frame(store_internal::Welcome{"a stopped process"}));
  });
  auto options = ClientOptions(server.address(), 0);
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
}

// --- Deaths

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
}  // namespace muster::store_testing

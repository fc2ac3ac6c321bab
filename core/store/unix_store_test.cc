// What a store on a unix socket promises beyond the conformance tests: whose it is, and what it
// leaves.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/socket_folder.h"
#include "muster/core/store/store_server_statistics.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_address.h"
#include "muster/core/store/tcp_handshake.h"
#include "muster/core/store/tcp_store.h"
#include "muster/core/store/tcp_store_server.h"
#include "muster/core/store/tcp_test_util.h"
#include "muster/core/store/wire.h"

namespace muster::store_testing {
namespace {

using ::testing::HasSubstr;

class UnixStoreTest : public TcpStoreFixture {
 protected:
  UnixStoreTest() { server_options_.address = folder_.Address("store"); }

  bool IsThere() const {
    struct stat file = {};
    return lstat(folder_.Path("store").c_str(), &file) == 0;
  }

  const SocketFolder folder_;
};

TEST_F(UnixStoreTest, IsServedAndItsSocketIsForOneUserAndGoesWithTheServer) {
  auto server = Serve();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->address(), folder_.Address("store"));
  EXPECT_EQ(server->port(), 0);
  struct stat file = {};
  ASSERT_EQ(lstat(folder_.Path("store").c_str(), &file), 0);
  EXPECT_TRUE(S_ISSOCK(file.st_mode));
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  auto store = Connect(server->address(), 1);
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(Set(*store, "k", "v").ok());
  EXPECT_EQ(store->server(), absl::StrCat("rank 0, host a, pid 7, at ", server->address()));
  EXPECT_EQ(store->local_host(), "127.0.0.1");
  EXPECT_TRUE(Leave(*store).ok());
  EXPECT_TRUE(server->Stop(Soon()).ok());
  EXPECT_FALSE(IsThere());
}

// As a launcher is by Ctrl-Z.
TEST_F(UnixStoreTest, AServerThatIsPausedForLongerThanTheHeartbeatTimeoutLosesNobody) {
  const std::unique_ptr<ControlThread> servers = *ControlThread::Start();
  server_options_.control_thread = servers.get();
  auto server = Serve();
  ASSERT_NE(server, nullptr);
  auto options = ClientOptions(server->address(), 1);
  options.heartbeat_timeout = absl::Milliseconds(100);
  auto store = TcpStore::Connect(options);
  ASSERT_TRUE(store.ok()) << store.status();
  absl::Notification goes_on;
  servers->Post([&goes_on] { goes_on.WaitForNotification(); });
  control_->PostAt(control_->Now() + 5 * options.heartbeat_timeout,
                   [&goes_on] { goes_on.Notify(); });
  goes_on.WaitForNotification();
  EXPECT_TRUE(Set(**store, "k", "v").ok());
  store->reset();
  server.reset();
}

TEST_F(UnixStoreTest, ThePathIsFreeForTheNextServerAtOnceAndTakenUntilThen) {
  auto server = Serve();
  const absl::Status taken = TcpStoreServer::Start(server_options_).status();
  EXPECT_EQ(taken, absl::FailedPreconditionError(
                       absl::StrCat("cannot serve the store on ", folder_.Address("store"),
                                    ": there is a file of that name: choose another path")));
  EXPECT_TRUE(IsThere()) << "the other one's is left alone";
  for (int cycle = 0; cycle < 20; ++cycle) {
    server.reset();
    server = Serve();
    auto store = Connect(server->address(), 1);
    ASSERT_NE(store, nullptr);
    EXPECT_TRUE(Set(*store, "k", "v").ok());
  }
}

TEST_F(UnixStoreTest, AProcessOfAnotherUserIsRefusedBeforeItHasSaidAnythingAndCounted) {
  server_options_.user = geteuid() + 1;
  auto server = Serve();
  RawConnection stranger(server->address());
  EXPECT_TRUE(stranger.AwaitEnd());
  // Counted before its connection is closed.
  EXPECT_EQ(server->Statistics().other_user, 1);
  EXPECT_EQ(server->Statistics().Refused(), "1 connection of another user");
  auto options = ClientOptions(server->address(), 1);
  options.deadline = MonotonicNow() + absl::Milliseconds(50);
  EXPECT_EQ(TcpStore::Connect(options).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(server->Sessions().empty());
}

// As root the other user can be a real one. Where root is one of a namespace there is no other.
TEST_F(UnixStoreTest, TheSystemSaysWhoItIs) {
  constexpr uid_t kNobody = 65534;
  control_.reset();  // no thread but this one, for fork
  int to_child[2];
  ASSERT_EQ(pipe2(to_child, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    char go = 0;
    if (read(to_child[0], &go, 1) != 1) _exit(3);
    if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(2);
    const auto resolved = store_internal::ResolveStore(server_options_.address, Soon());
    const auto fd = store_internal::StartConnect(resolved->front());
    if (!fd.ok()) _exit(4);
    char byte = 0;
    pollfd poller = {*fd, POLLIN, 0};
    poll(&poller, 1, 60000);
    _exit(recv(*fd, &byte, 1, 0) == 0 ? 0 : 5);
  }
  control_ = *ControlThread::Start();
  auto server = Serve();
  // Open to all but for what the store itself checks.
  EXPECT_EQ(chmod(folder_.Path("").c_str(), 0755), 0);
  EXPECT_EQ(chmod(folder_.Path("store").c_str(), 0666), 0);
  EXPECT_EQ(write(to_child[1], "!", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  close(to_child[0]);
  close(to_child[1]);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this user cannot become another one";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(server->Statistics().other_user, 1);
}

TEST_F(UnixStoreTest, TheTokenCountsThereToo) {
  auto server = Serve();
  const absl::Status refused = RefusalOf(server->address(), "another job's", 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  RawConnection guesses(server->address());
  guesses.Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()}) +
               EncodeFrame(store_internal::Open()));
  EXPECT_TRUE(guesses.AwaitEnd());
  EXPECT_TRUE(server->Sessions().empty());
}

// A path that was left to others leads to their store.
TEST_F(UnixStoreTest, AStoreOfAnotherUserIsRefusedByItsClientBeforeItHasSaidAnything) {
  auto server = Serve();
  store_internal::HandshakeOptions options{server->address(), token_, Info(1), Patience(), Soon()};
  options.user = geteuid() + 1;
  EXPECT_EQ(store_internal::OpenSession(options).status(),
            absl::PermissionDeniedError(
                absl::StrCat("the store at ", server->address(), " is served by user ", geteuid(),
                             ", and this process is of user ", geteuid() + 1,
                             ": start launcher and ranks as one user")));
  EXPECT_TRUE(server->Sessions().empty());
}

TEST_F(UnixStoreTest, WhatHasTakenItsPathMeanwhileIsLeftAlone) {
  auto server = Serve();
  ASSERT_EQ(unlink(folder_.Path("store").c_str()), 0);
  std::ofstream(folder_.Path("store")) << "another's";
  server.reset();
  EXPECT_TRUE(IsThere());
}

// Whatever the process's umask lets through. A link in the path's place is never followed: bind
// refuses it, and nothing else of the path is touched.
TEST_F(UnixStoreTest, ItsSocketIsForOneUserFromTheFirstMomentAndALinkIsNotFollowed) {
  std::ofstream(folder_.Path("file")) << "ours";
  ASSERT_EQ(chmod(folder_.Path("file").c_str(), 0644), 0);
  ASSERT_EQ(symlink(folder_.Path("file").c_str(), folder_.Path("store").c_str()), 0);
  EXPECT_EQ(TcpStoreServer::Start(server_options_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  struct stat file = {};
  ASSERT_EQ(stat(folder_.Path("file").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0644u);
  ASSERT_EQ(unlink(folder_.Path("store").c_str()), 0);
  const mode_t before = umask(0);
  const auto listener = store_internal::Listen(
      store_internal::ResolveStore(folder_.Address("store"), Soon())->front());
  umask(before);
  ASSERT_TRUE(listener.ok()) << listener.status();
  ASSERT_EQ(lstat(folder_.Path("store").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  close(listener->fd);
  store_internal::RemoveSocket(*listener);
  EXPECT_FALSE(IsThere());
}

// The system takes no more connections than its queue is long, and says so in a way of its own.
TEST_F(UnixStoreTest, AFullQueueIsToldAndTriedAgain) {
  const auto address = store_internal::ResolveStore(folder_.Address("store"), Soon())->front();
  const auto listener = store_internal::Listen(address);
  ASSERT_TRUE(listener.ok()) << listener.status();
  ASSERT_EQ(listen(listener->fd, 0), 0);
  std::vector<int> waiting;
  absl::Status full;
  while (full.ok() && waiting.size() < 100) {
    const auto fd = store_internal::StartConnect(address);
    if (fd.ok()) waiting.push_back(*fd);
    full = fd.status();
  }
  EXPECT_EQ(full, absl::UnavailableError("too many others connect at this moment"));
  for (const int fd : waiting) close(fd);
  close(listener->fd);
  store_internal::RemoveSocket(*listener);
}

TEST_F(UnixStoreTest, AServerThatStartsLaterThanItsClientIsFound) {
  std::unique_ptr<TcpStore> store;
  std::thread client([&] { store = Connect(folder_.Address("store"), 1); });
  auto server = Serve();
  client.join();
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(Set(*store, "k", "v").ok());
}

TEST_F(UnixStoreTest, NobodyThereAndNoSocketAreToldAtTheDeadline) {
  auto options = ClientOptions(folder_.Address("store"), 1);
  options.deadline = MonotonicNow() + absl::Milliseconds(50);
  EXPECT_THAT(std::string(TcpStore::Connect(options).status().message()),
              HasSubstr(absl::StrCat("rank 1 cannot reach the store at ", options.address)));
  std::ofstream(folder_.Path("file")) << "no socket";
  options.address = folder_.Address("file");
  options.deadline = MonotonicNow() + absl::Milliseconds(50);
  EXPECT_THAT(std::string(TcpStore::Connect(options).status().message()),
              HasSubstr("connection refused"));
}

TEST_F(UnixStoreTest, WhatIsNoAddressIsTold) {
  for (const std::string& address : {std::string("unix:"), std::string("unix:store"),
                                     absl::StrCat("unix:/", std::string(107, 'x'))}) {
    const absl::Status status = TcpStore::Connect(ClientOptions(address, 1)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr("unix:/path")) << address;
    server_options_.address = address;
    EXPECT_EQ(TcpStoreServer::Start(server_options_).status(), status);
  }
  server_options_.address = folder_.Address("no/such/folder");
  EXPECT_THAT(std::string(TcpStoreServer::Start(server_options_).status().message()),
              HasSubstr("No such file or directory"));
}

TEST_F(UnixStoreTest, AForkedChildLeavesTheSocketToItsParent) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(static_cast<unsigned>(absl::ToInt64Seconds(Patience())));
    store.reset();
    server.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(IsThere());
  EXPECT_TRUE(Set(*store, "k", "v").ok());
  EXPECT_NE(Connect(server->address(), 1), nullptr);
}

}  // namespace
}  // namespace muster::store_testing

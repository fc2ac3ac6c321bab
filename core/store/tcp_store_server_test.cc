// What the TCP server promises beyond the conformance tests: strangers, broken clients, its own
// life.

#include "muster/core/store/tcp_store_server.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/few_descriptors.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/observed_thread.h"
#include "muster/core/store/auth.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_handshake.h"
#include "muster/core/store/tcp_server_core.h"
#include "muster/core/store/tcp_store.h"
#include "muster/core/store/tcp_test_util.h"
#include "muster/core/store/wire.h"

namespace muster::store_testing {
namespace {

using store_internal::EncodeFrame;
using store_internal::Request;
using ::testing::HasSubstr;
using Liveness = SessionRecord::Liveness;

class TcpStoreServerTest : public TcpStoreFixture {};

TEST_F(TcpStoreServerTest, ASocketThatCannotBeWatchedIsAnErrorNotASilentServer) {
  auto control = ControlThread::Start();
  ASSERT_TRUE(control.ok());
  const store_internal::Listener closed = {-1, {"127.0.0.1", 41231}, AF_INET};
  const auto core = store_internal::TcpServerCore::Create(control->get(), {}, closed);
  EXPECT_EQ(core.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(core.status().message()),
              HasSubstr("cannot watch its port 127.0.0.1:41231: Bad file descriptor"));
}

// Ranks make one pool after the other at one address, each with the store of rank 0's: who is done
// first must not join the old one.
TEST_F(TcpStoreServerTest, AStoreThatEndsWithItsHostSendsWhoHasLeftToTheNextOneAndNobodyElse) {
  server_options_.ends_with_its_host = true;
  auto server = Serve();
  auto host = Connect(server->address(), 0);
  Connect(server->address(), 1).reset();  // leaves in good order
  auto options = ClientOptions(server->address(), 1);
  options.deadline = MonotonicNow() + absl::Milliseconds(50);
  const absl::Status early = TcpStore::Connect(options).status();
  EXPECT_EQ(early.code(), absl::StatusCode::kDeadlineExceeded) << early;
  EXPECT_THAT(std::string(early.message()), HasSubstr("rank 1 has left this store"));

  server_options_.address = server->address();
  std::unique_ptr<TcpStore> next;
  std::thread client([&] { next = Connect(server_options_.address, 1); });
  host.reset();
  server.reset();
  server = Serve();
  client.join();
  ASSERT_NE(next, nullptr);
  EXPECT_TRUE(Set(*next, "k", "v").ok());
}

// --- Strangers and broken clients

TEST_F(TcpStoreServerTest, AStrangerWithoutTheTokenIsRefusedAndChangesNothing) {
  auto server = Serve();
  const absl::Status refused = RefusalOf(server->address(), "a guess", 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(server->address()));

  // One that does not care who the server is.
  RawConnection stranger(server->address());
  stranger.Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()}));
  ASSERT_TRUE(stranger.Receive().has_value());
  store_internal::Open open;
  open.session = Info(1);
  open.proof = *store_internal::ClientProof("a guess", Nonce(), "", "");
  stranger.Send(EncodeFrame(open));
  const auto answer = stranger.Receive();
  ASSERT_TRUE(answer.has_value() && std::holds_alternative<store_internal::Refused>(*answer));
  EXPECT_EQ(std::get<store_internal::Refused>(*answer).status.code(),
            absl::StatusCode::kPermissionDenied);
  stranger.Send(EncodeFrame(Request()));
  EXPECT_TRUE(server->Sessions().empty());
  EXPECT_NE(Connect(server->address(), 1), nullptr);
}

TEST_F(TcpStoreServerTest, StrangersThatOnlySitThereKeepNoRankOut) {
  server_options_.max_strangers = 3;
  auto server = Serve();
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(std::make_unique<RawConnection>(server->address()));
  auto store = Connect(server->address(), 1);
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(Set(*store, "k", "v").ok());
  EXPECT_TRUE(idle.front()->AwaitEnd()) << "the oldest goes first";
}

TEST_F(TcpStoreServerTest, WhoHasBegunToIntroduceItselfStaysWhileOthersSaidNothing) {
  server_options_.max_strangers = 3;
  server_options_.first_word = absl::ZeroDuration();
  auto server = Serve();
  RawConnection talks(server->address());
  talks.Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()}));
  ASSERT_TRUE(talks.Receive().has_value());
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(std::make_unique<RawConnection>(server->address()));
  for (int i = 0; i < 18; ++i) EXPECT_TRUE(idle[i]->AwaitEnd()) << i;
  store_internal::Open open;
  open.session = Info(1);
  talks.Send(EncodeFrame(open));
  const auto answer = talks.Receive();
  EXPECT_TRUE(answer.has_value() && std::holds_alternative<store_internal::Refused>(*answer))
      << "it is answered, here that its token is wrong";
}

// A Hello is free. Strangers that have all said it, and come on, meet one whose Hello is still on
// its way: it stays until it is the oldest.
TEST_F(TcpStoreServerTest, ANewcomerIsNotEndedBeforeStrangersThatAreOlder) {
  server_options_.max_strangers = 3;
  server_options_.first_word = absl::InfiniteDuration();
  auto server = Serve();
  const std::string hello =
      EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()});
  std::vector<std::unique_ptr<RawConnection>> strangers;
  const auto stranger = [&] {
    strangers.push_back(std::make_unique<RawConnection>(server->address()));
    strangers.back()->Send(hello);
    EXPECT_TRUE(strangers.back()->Receive().has_value());
  };
  for (int i = 0; i < 3; ++i) stranger();
  RawConnection rank(server->address());
  for (int i = 0; i < 2; ++i) stranger();
  rank.Send(hello);
  const auto answer = rank.Receive();
  EXPECT_TRUE(answer.has_value() && std::holds_alternative<store_internal::Challenge>(*answer));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(strangers[i]->AwaitEnd()) << i;
}

TEST_F(TcpStoreServerTest, WhoMakesRoomIsToldSo) {
  server_options_.max_strangers = 1;
  auto server = Serve();
  RawConnection first(server->address());
  RawConnection second(server->address());
  EXPECT_EQ(LastWord(first), "too many others had not introduced themselves");
}

TEST_F(TcpStoreServerTest, StrangersThatHaveTheLastDescriptorKeepNoRankOut) {
  server_options_.handshake_timeout = absl::Hours(1);
  auto server = Serve();
  const int before = OpenDescriptors();
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 5; ++i) idle.push_back(std::make_unique<RawConnection>(server->address()));
  const absl::Time deadline = Soon();
  while (OpenDescriptors() < before + 10 && MonotonicNow() < deadline) std::this_thread::yield();
  ASSERT_EQ(OpenDescriptors(), before + 10) << "all are accepted";
  const FewDescriptors one_for_the_client(1);
  RawConnection rank(server->address());
  rank.Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()}));
  EXPECT_TRUE(rank.Receive().has_value());
  EXPECT_TRUE(idle.front()->AwaitEnd()) << "the oldest goes first";
}

TEST_F(TcpStoreServerTest, StrangersHaveNoMoreThanHalfOfTheDescriptors) {
  std::unique_ptr<TcpStoreServer> server;
  rlimit limit = {};
  {
    const FewDescriptors few(30);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    server = Serve();
  }
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (rlim_t i = 0; i <= limit.rlim_cur / 2; ++i) {
    idle.push_back(std::make_unique<RawConnection>(server->address()));
  }
  EXPECT_TRUE(idle.front()->AwaitEnd());
}

// Without a descriptor accept does not tell whether somebody waits.
TEST_F(TcpStoreServerTest, WhoHasTheLastDescriptorKeepsItWhileNobodyElseWaits) {
  auto server = Serve();
  const FewDescriptors two(2);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  RawConnection rank(server->address());
  const absl::Time deadline = Soon();
  const int last = static_cast<int>(limit.rlim_cur) - 1;
  while (fcntl(last, F_GETFD) < 0 && MonotonicNow() < deadline) std::this_thread::yield();
  ASSERT_GE(fcntl(last, F_GETFD), 0) << "it is accepted";
  rank.Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()}));
  EXPECT_TRUE(rank.Receive().has_value());
}

TEST_F(TcpStoreServerTest, WhateverAStrangerSaysFirstEndsItsConnectionAlone) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  const std::string hello =
      EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()});
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

TEST_F(TcpStoreServerTest, AMalformedOrOversizedFrameOfASessionEndsThatSessionAlone) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  WatchLog log;
  store->Watch(kSessionKeyPrefix, log.Callback());
  const std::vector<std::string> broken = {
      std::string("\x03\0\0\0???", 7),  // no such type
      EncodeFrame(store_internal::Response()),
  };
  for (size_t i = 0; i < broken.size(); ++i) {
    auto opened = OpenAnother(server->address(), 1, 7 + i);
    ASSERT_TRUE(opened.ok()) << opened.status();
    std::string frame = broken[i];
    ASSERT_TRUE(opened->seal->Seal(&frame).ok());
    RawConnection session(*std::move(opened));
    session.Send(frame);
    EXPECT_THAT(LastWord(session), HasSubstr(i == 0 ? "a malformed frame of type 63 and 3 bytes"
                                                    : "it sent what is no request"));
    EXPECT_TRUE(Set(*store, "k", "v").ok());
  }
  EXPECT_THAT(log.AwaitSession(1, Liveness::kLost).reason,
              HasSubstr("its connection was ended: a malformed frame"));
  auto opened = OpenAnother(server->address(), 1, 77);
  ASSERT_TRUE(opened.ok()) << opened.status();
  RawConnection session(*std::move(opened));
  session.Send("\xff\xff\xff\x7f");
  const std::string word = LastWord(session);
  EXPECT_THAT(word, HasSubstr("a frame of 2147483647 bytes, the limit is "));
  EXPECT_THAT(word, HasSubstr("something between the two ends writes to their connection"));
  EXPECT_TRUE(Set(*store, "k", "v").ok());
}

TEST_F(TcpStoreServerTest, AnotherVersionIsRefusedWithBothVersions) {
  auto server = Serve();
  RawConnection old(server->address());
  old.Send(EncodeFrame(store_internal::Hello{77, Nonce()}));
  const auto answer = old.Receive();
  ASSERT_TRUE(answer.has_value() && std::holds_alternative<store_internal::Refused>(*answer));
  EXPECT_THAT(std::string(std::get<store_internal::Refused>(*answer).status.message()),
              HasSubstr("this client 77"));
}

TEST_F(TcpStoreServerTest, AConnectionThatSaysNothingHoldsNobodyUpAndIsClosedAtItsBound) {
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

TEST_F(TcpStoreServerTest, AStoreWithoutRoomForAStrangerIsRefused) {
  server_options_.max_strangers = 0;
  const absl::Status status = TcpStoreServer::Start(server_options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_strangers 0"));
}

TEST_F(TcpStoreServerTest, AHalfSentFrameOfOneSessionHoldsNoOtherUp) {
  auto server = Serve();
  RawConnection slow(OpenByHand(server->address(), 1, absl::InfiniteDuration()));
  slow.Send(slow.Frame(Request()).substr(0, 7));
  auto store = Connect(server->address(), 0);
  EXPECT_TRUE(Set(*store, "k", "v").ok());
}

// --- The server's life

TEST_F(TcpStoreServerTest, APortThatIsTakenIsToldAndOneThatWasStoppedIsFreeAtOnce) {
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

TEST_F(TcpStoreServerTest, TheServerLeavesLast) {
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

TEST_F(TcpStoreServerTest, AtItsBoundTheServerEndsAndNamesWhoHadNotLeft) {
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

TEST_F(TcpStoreServerTest, AStopThatWaitsForASessionCanBeHurriedByAnotherThread) {
  auto server = Serve();
  auto store = Connect(server->address(), 2);
  absl::Status stopped;
  ObservedThread stopper([&] { stopped = server->Stop(absl::InfiniteFuture()); });
  EXPECT_TRUE(stopper.AwaitAsleep(Soon()));
  EXPECT_TRUE(Set(*store, "k", "still served").ok());
  server->StopWaiting();
  stopper.join();
  EXPECT_THAT(std::string(stopped.message()), HasSubstr("rank 2 (host a, pid 102)"));
}

TEST_F(TcpStoreServerTest, AClientThatKeepsItsConnectionIsNoSinkOfAServerThatHasStopped) {
  auto server = Serve();
  // Never answers the goodbye, so that its connection is given up.
  RawConnection stubborn(OpenByHand(server->address(), 1, absl::InfiniteDuration()));
  EXPECT_FALSE(server->Stop(absl::InfinitePast()).ok());
  std::vector<SessionRecord> sessions = server->Sessions();
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0].liveness, Liveness::kLost);
  EXPECT_THAT(sessions[0].reason, HasSubstr("the store ended"));
  // A launcher may go on reaping: whoever watches the sessions would be told.
  server->DeclareLost(2, "killed by signal 9");
  sessions = server->Sessions();
  EXPECT_EQ(sessions.size(), 2u);
}

TEST_F(TcpStoreServerTest, AServerOnTheClientsControlThreadServesAndStops) {
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

TEST_F(TcpStoreServerTest, AGoodbyeThatHasArrivedCountsBeforeADuplicateIsSeen) {
  auto server_control = *ControlThread::Start();
  server_options_.control_thread = server_control.get();
  auto server = Serve();
  auto before = Connect(server->address(), 1);
  // A second process of rank 1 introduces itself up to the last word.
  RawConnection successor(server->address());
  successor.Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()}));
  const auto challenge = successor.Receive();
  ASSERT_TRUE(challenge.has_value());
  store_internal::Open open;
  open.session = Info(1);
  open.proof = *store_internal::ClientProof(
      token_, Nonce(), std::get<store_internal::Challenge>(*challenge).nonce, EncodeFrame(open));
  // While the server is busy the last word comes, and then the first one's goodbye.
  absl::Notification busy;
  absl::Notification go_on;
  server_control->Post([&] {
    busy.Notify();
    go_on.WaitForNotification();
  });
  busy.WaitForNotification();
  successor.Send(EncodeFrame(open));
  successor.StartSealing(
      *store_internal::FrameSeal::Create(store_internal::FrameSeal::Side::kClient, token_, Nonce(),
                                         std::get<store_internal::Challenge>(*challenge).nonce));
  before.reset();
  go_on.Notify();
  const auto answer = successor.Receive();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(std::holds_alternative<store_internal::Welcome>(*answer));
}

TEST_F(TcpStoreServerTest, NothingIsLeftWhenBothEndsAreGone) {
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

}  // namespace
}  // namespace muster::store_testing

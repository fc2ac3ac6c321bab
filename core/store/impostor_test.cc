// Whoever writes to a client without the token, or listens in the store's place: what it says is
// not the store's word.

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/raw_server.h"
#include "muster/core/store/store.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_handshake.h"
#include "muster/core/store/tcp_store.h"
#include "muster/core/store/tcp_test_util.h"
#include "muster/core/store/wire.h"

namespace muster::store_testing {
namespace {

using store_internal::EncodeFrame;
using store_internal::Request;
using store_internal::Response;
using ::testing::HasSubstr;

class ImpostorTest : public TcpStoreFixture {};

TEST_F(ImpostorTest, AnAnswerThatTheServerDidNotGiveIsNotBelieved) {
  RawServer server(token_);
  std::unique_ptr<RawConnection> session;
  std::thread serve([&] {
    session = server.Greet();
    session->Send(session->Frame(store_internal::Welcome{"the server"}));
  });
  auto options = ClientOptions(server.address(), 0);
  options.heartbeat_timeout = absl::InfiniteDuration();
  auto store = TcpStore::Connect(options);
  serve.join();
  ASSERT_TRUE(store.ok()) << store.status();
  PromisedOr<Revision> answer;
  (*store)->Set("k", "v", Lifetime::kPersistent, Soon(), answer.Callback());
  const auto request = session->Receive();
  ASSERT_TRUE(request.has_value());
  Response forged;
  forged.id = std::get<Request>(*request).id;
  forged.revision = 7;
  std::string frame = EncodeFrame(forged);
  store_internal::ExtendFrame(&frame, std::string(store_internal::FrameSeal::kBytes, 's'));
  session->Send(frame);
  EXPECT_EQ(answer.Get().status(),
            absl::UnavailableError(absl::StrCat(
                "the store (the server, at ", server.address(),
                ") was lost: frame 1 was altered, replayed or out of order: something between the "
                "two ends writes to their connection")));
}

TEST_F(ImpostorTest, ARefusalThatTheServerDidNotGiveIsNotBelieved) {
  RawServer server(token_);
  std::thread serve([&] {
    auto session = server.Greet();
    session->Send(
        EncodeFrame(store_internal::Refused{absl::AlreadyExistsError("rank 0 is already here")}));
    session->AwaitEnd();
  });
  const absl::Status refused = RefusalOf(server.address(), token_, 0);
  serve.join();
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("the greeting of the store at ", server.address(),
                                     ": frame 0 came with ")));
}

// Whoever listens there before the store does, or is between the two, can say anything until the
// token is shown: none of it ends a rank that the store would take a moment later.
TEST_F(ImpostorTest, WhatIsSaidBeforeAProofOnlyMakesTheRankTryAgain) {
  RawServer impostor(token_);
  const std::string address = impostor.address();
  const std::vector<std::string> lies = {
      EncodeFrame(store_internal::Refused{absl::AlreadyExistsError("rank 1 is already here")}),
      EncodeFrame(store_internal::Refused{absl::UnavailableError("the store is closing")}),
      EncodeFrame(store_internal::Challenge{Nonce(), std::string(32, 'p')}),
      EncodeFrame(store_internal::Challenge{"short", std::string(32, 'p')}),
      "HTTP/1.1 400 Bad Request\r\n\r\n",
  };
  std::thread lie([&] {
    for (const std::string& words : lies) {
      auto session = impostor.Accept();
      EXPECT_TRUE(session->Receive().has_value());
      session->Send(words);
      session->AwaitEnd();
    }
    auto session = impostor.Greet();
    session->Send(session->Frame(store_internal::Welcome{"the store at last"}));
    session->AwaitEnd();
  });
  store_internal::HandshakeOptions options{address, token_, Info(1), Patience(), Soon()};
  options.unproven_patience = Patience();
  const auto opened = store_internal::OpenSession(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->served_by, "the store at last");
  close(opened->fd);
  lie.join();
}

TEST_F(ImpostorTest, ARefusalWithoutAProofIsToldAsWhatItIsInOneLine) {
  RawServer impostor(token_);
  std::thread lie([&] {
    auto session = impostor.Accept();
    EXPECT_TRUE(session->Receive().has_value());
    session->Send(EncodeFrame(store_internal::Refused{
        absl::AlreadyExistsError(absl::StrCat("first\n\x1b[2Jsecond", std::string(4000, 'x')))}));
    session->AwaitEnd();
  });
  const absl::Status refused = RefusalOf(impostor.address(), token_, 1);
  lie.join();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  const std::string message(refused.message());
  EXPECT_THAT(message, HasSubstr(absl::StrCat("who listens at ", impostor.address(),
                                              " takes no session, and has not shown that it knows "
                                              "this job's token; it says: \"first\\n\\x1b[2J")));
  EXPECT_LT(message.size(), 700u);
}

// Without it the server and the other ranks would know only that the connection closed.
TEST_F(ImpostorTest, AClientThatIsSentWhatTheServerDidNotSendSaysSoAsItGoes) {
  RawServer server(token_);
  std::unique_ptr<RawConnection> session;
  std::thread serve([&] {
    session = server.Greet();
    session->Send(session->Frame(store_internal::Welcome{"the server"}));
  });
  auto options = ClientOptions(server.address(), 0);
  options.heartbeat_timeout = absl::InfiniteDuration();
  auto store = TcpStore::Connect(options);
  serve.join();
  ASSERT_TRUE(store.ok()) << store.status();
  std::string altered = session->Frame(Response());
  altered.back() ^= 1;
  session->Send(altered);
  EXPECT_THAT(LastWord(*session), HasSubstr("frame 1 was altered, replayed or out of order"));
}

TEST_F(ImpostorTest, AClientWhoseConnectionTheServerEndsIsToldWhy) {
  RawServer server(token_);
  std::unique_ptr<RawConnection> session;
  std::thread serve([&] {
    session = server.Greet();
    session->Send(session->Frame(store_internal::Welcome{"the server"}));
    session->Send(session->Frame(store_internal::Refused{absl::DataLossError("frame 3 is odd")}));
  });
  auto store = TcpStore::Connect(ClientOptions(server.address(), 0));
  serve.join();
  ASSERT_TRUE(store.ok()) << store.status();
  WatchLog log;
  (*store)->Watch("", log.Callback());
  EXPECT_THAT(std::string(log.AwaitEnd().message()),
              HasSubstr("was lost: it ended this connection: frame 3 is odd"));
}

}  // namespace
}  // namespace muster::store_testing

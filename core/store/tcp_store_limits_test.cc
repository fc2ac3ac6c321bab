// What goes beyond a limit of the TCP server, or comes from who is none of the job's: it ends alone
// and is counted.

#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/store_server_statistics.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_handshake.h"
#include "muster/core/store/tcp_store.h"
#include "muster/core/store/tcp_store_server.h"
#include "muster/core/store/tcp_test_util.h"
#include "muster/core/store/wire.h"

namespace muster::store_testing {
namespace {

using store_internal::EncodeFrame;
using store_internal::Request;
using ::testing::HasSubstr;
using Liveness = SessionRecord::Liveness;

class TcpStoreLimitsTest : public TcpStoreFixture {
 protected:
  using Count = int64_t StoreServerStatistics::*;

  // The server counts a connection's end a moment after its peer has seen it.
  static void ExpectCount(const TcpStoreServer& server, Count count, int64_t expected) {
    const absl::Time deadline = Soon();
    while (server.Statistics().*count < expected && MonotonicNow() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(server.Statistics().*count, expected) << server.Statistics().Refused();
  }
};

TEST_F(TcpStoreLimitsTest, AnOrdinaryJobIsRefusedNothing) {
  auto server = Serve();
  {
    auto first = Connect(server->address(), 0);
    auto second = Connect(server->address(), 1);
    EXPECT_TRUE(Set(*first, "k", "v").ok());
    EXPECT_TRUE(Leave(*second).ok());
  }
  EXPECT_TRUE(server->Stop(Soon()).ok());
  const StoreServerStatistics statistics = server->Statistics();
  EXPECT_EQ(statistics.connections, 2);
  EXPECT_EQ(statistics.sessions, 2);
  EXPECT_EQ(statistics.gone, 0);
  EXPECT_EQ(statistics.Refused(), "");
}

TEST_F(TcpStoreLimitsTest, WhatASessionAsksAndGetsIsCounted) {
  auto server = Serve();
  auto client = ClientOptions(server->address(), 0);
  client.heartbeat_timeout = absl::InfiniteDuration();  // a beat is a request, too
  const absl::StatusOr<std::unique_ptr<TcpStore>> store = TcpStore::Connect(client);
  ASSERT_TRUE(store.ok()) << store.status();
  const StoreServerStatistics before = server->Statistics();
  EXPECT_EQ(before.requests, 0);
  const std::string value(1000, 'v');
  EXPECT_TRUE(Set(**store, "k", value).ok());
  EXPECT_EQ(Get(**store, "k")->value, value);
  const StoreServerStatistics after = server->Statistics();
  EXPECT_EQ(after.requests, 2);
  // One value each way, and little else.
  EXPECT_GT(after.bytes_received, 1000);
  EXPECT_LT(after.bytes_received, 1200);
  EXPECT_GT(after.bytes_sent, 1000);
  EXPECT_LT(after.bytes_sent, 1200);
}

TEST_F(TcpStoreLimitsTest, EveryKindOfStrangerIsCountedAndChangesNothing) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\xff\xff\xff\xff", 4),
        EncodeFrame(Request()), EncodeFrame(store_internal::Hello{77, Nonce()})}) {
    RawConnection garbage(server->address());
    garbage.Send(words);
    EXPECT_TRUE(garbage.AwaitEnd());
  }
  ExpectCount(*server, &StoreServerStatistics::no_greeting, 4);
  {
    RawConnection guesses(server->address());
    guesses.Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()}) +
                 EncodeFrame(store_internal::Open()));
    EXPECT_TRUE(guesses.AwaitEnd());
  }
  ExpectCount(*server, &StoreServerStatistics::wrong_token, 1);
  {
    RawConnection scanner(server->address());
  }
  {
    RawConnection scanner(server->address());
    scanner.Send("\x20");
  }
  ExpectCount(*server, &StoreServerStatistics::gone, 2);
  const StoreServerStatistics statistics = server->Statistics();
  EXPECT_EQ(statistics.connections, 8);
  EXPECT_EQ(statistics.sessions, 1);
  EXPECT_EQ(statistics.Refused(),
            "4 connections that spoke another protocol, 1 connection that did not know the job's "
            "token");
  EXPECT_EQ(server->Sessions().size(), 1u);
  EXPECT_EQ(server->Entries("").size(), 1u) << "rank 0's record";
  EXPECT_TRUE(Set(*store, "k", "v").ok());
  // Who knows the token is no stranger.
  EXPECT_EQ(TcpStore::Connect(ClientOptions(server->address(), 0)).status().code(),
            absl::StatusCode::kAlreadyExists);
  ExpectCount(*server, &StoreServerStatistics::not_let_in, 1);
  EXPECT_EQ(server->Statistics().Refused(), statistics.Refused());
}

// A byte now and then keeps nobody's place: the time is that of the whole greeting.
TEST_F(TcpStoreLimitsTest, AStrangerThatNeverStopsTalkingIsEndedAtTheBoundAllTheSame) {
  server_options_.handshake_timeout = absl::Milliseconds(100);
  auto server = Serve();
  const absl::Time began = MonotonicNow();
  RawConnection slow(server->address());
  const std::string hello =
      EncodeFrame(store_internal::Hello{store_internal::kWireVersion, std::string(4096, 'n')});
  for (size_t i = 0; i + 1 < hello.size(); ++i) {  // never the last one
    if (server->Statistics().too_slow > 0 || MonotonicNow() > Soon()) break;
    slow.Send(hello.substr(i, 1));
    std::this_thread::yield();
  }
  EXPECT_TRUE(slow.AwaitEnd());
  EXPECT_GE(MonotonicNow() - began, absl::Milliseconds(100));
  ExpectCount(*server, &StoreServerStatistics::too_slow, 1);
}

TEST_F(TcpStoreLimitsTest, StrangersThatMakeRoomAreCounted) {
  server_options_.max_strangers = 2;
  auto server = Serve();
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 5; ++i) idle.push_back(std::make_unique<RawConnection>(server->address()));
  ExpectCount(*server, &StoreServerStatistics::crowded_out, 3);
  EXPECT_NE(Connect(server->address(), 1), nullptr);
}

TEST_F(TcpStoreLimitsTest, AFrameThatWasTamperedWithAndOneThatIsNoneAreCountedApart) {
  auto server = Serve();
  {
    RawConnection tampered(OpenByHand(server->address(), 1, absl::InfiniteDuration()));
    const std::string frame = tampered.Frame(SetRequest(1, "k"));
    tampered.Send(frame + frame);
    EXPECT_TRUE(tampered.AwaitEnd());
  }
  ExpectCount(*server, &StoreServerStatistics::tampered, 1);
  {
    RawConnection malformed(OpenByHand(server->address(), 2, absl::InfiniteDuration()));
    malformed.Send(malformed.Frame(store_internal::Welcome{"me"}));
    EXPECT_TRUE(malformed.AwaitEnd());
  }
  ExpectCount(*server, &StoreServerStatistics::malformed, 1);
  EXPECT_EQ(server->Statistics().tampered, 1);
}

TEST_F(TcpStoreLimitsTest, ASessionThatDoesNotReadIsEndedAloneAtItsLimit) {
  server_options_.max_queued = 16 << 20;
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  EXPECT_TRUE(Set(*store, "big", std::string(Store::kMaxValueBytes, 'x')).ok());
  WatchLog log;
  store->Watch(kSessionKeyPrefix, log.Callback());
  RawConnection deaf(OpenByHand(server->address(), 1, absl::InfiniteDuration()));
  Request get;
  get.type = Request::Type::kGet;
  get.key = "big";
  // What the system buffers for a connection is well below this.
  std::string requests;
  for (int i = 0; i < 64; ++i) {
    get.id = static_cast<uint64_t>(i) + 1;
    requests += deaf.Frame(get);
  }
  deaf.Send(requests);
  EXPECT_THAT(log.AwaitSession(1, Liveness::kLost).reason,
              HasSubstr("the other side does not read: "));
  EXPECT_THAT(log.AwaitSession(1, Liveness::kLost).reason, HasSubstr("the limit is 16777216"));
  EXPECT_TRUE(Set(*store, "k", "v").ok());
  ExpectCount(*server, &StoreServerStatistics::not_reading, 1);
}

TEST_F(TcpStoreLimitsTest, ARequestBeyondALimitIsAnErrorWithTheLimitAndCounted) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  std::vector<PromisedOr<GatherResult>> waiting;
  for (size_t i = 0; i < store_internal::kGathersPerSession; ++i) {
    waiting.push_back(StartGather(*store, absl::StrCat("g", i), 0, 2, ""));
  }
  const absl::Status full = StartGather(*store, "one more", 0, 2, "").Get().status();
  EXPECT_EQ(full, absl::ResourceExhaustedError(
                      "gather \"one more\": this session waits for 4096 gathers already, which is "
                      "its limit: wait for some of them"));
  ExpectCount(*server, &StoreServerStatistics::over_limit, 1);
  auto other = Connect(server->address(), 1);
  EXPECT_TRUE(StartGather(*other, "g7", 1, 2, "").Get().ok());
  EXPECT_TRUE(waiting[7].Get().ok());
}

// Each restart of a rank whose old process is only stopped leaves a connection.
TEST_F(TcpStoreLimitsTest, ConnectionsOfSessionsThatHaveEndedAreBounded) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  const size_t limit =
      store_internal::kConnectionsPerRank * kWorldSize + store_internal::kMoreConnections;
  std::vector<std::unique_ptr<RawConnection>> stopped;
  for (size_t i = 0; i < limit + 3; ++i) {
    auto opened = OpenAnother(server->address(), 1, 100 + i);
    ASSERT_TRUE(opened.ok()) << opened.status();
    stopped.push_back(std::make_unique<RawConnection>(*std::move(opened)));
    server->DeclareLost(1, "stopped");
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(stopped[i]->AwaitEnd()) << i;
  ExpectCount(*server, &StoreServerStatistics::outlived, 4);
  EXPECT_EQ(server->Statistics().Refused(), "") << "that is no stranger's";
  EXPECT_TRUE(Set(*store, "k", "v").ok()) << "who lives stays";
  // The next one is asked and answers, that it is fenced.
  stopped[4]->Send(stopped[4]->Frame(SetRequest(1, "k")));
  EXPECT_TRUE(stopped[4]->Receive().has_value());
}

// A client looks at the server's proof first, and goes when it is another token's.
TEST_F(TcpStoreLimitsTest, ARankWithAnotherTokenIsCountedAsThatToo) {
  auto server = Serve();
  EXPECT_EQ(RefusalOf(server->address(), "another job's", 1).code(),
            absl::StatusCode::kPermissionDenied);
  ExpectCount(*server, &StoreServerStatistics::wrong_token, 1);
  EXPECT_EQ(server->Statistics().gone, 0);
}

// Otherwise a guesser that does not hang up would be counted as a slow one, and keep its place.
TEST_F(TcpStoreLimitsTest, WhoWasRefusedAndStaysIsEndedSoonAndCountedOnceForWhatItWas) {
  auto server = Serve();
  RawConnection guesses(server->address());
  guesses.Send(EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()}) +
               EncodeFrame(store_internal::Open()));
  const absl::Time sent = MonotonicNow();
  ExpectCount(*server, &StoreServerStatistics::wrong_token, 1);
  EXPECT_LT(MonotonicNow() - sent, store_internal::kHandshakeTimeout);
  EXPECT_EQ(server->Statistics().too_slow, 0);
}

TEST_F(TcpStoreLimitsTest, ANonceOfAnotherLengthIsNoGreeting) {
  auto server = Serve();
  for (const size_t size : {0u, 31u, 33u, 4096u}) {
    RawConnection odd(server->address());
    odd.Send(
        EncodeFrame(store_internal::Hello{store_internal::kWireVersion, std::string(size, 'n')}));
    EXPECT_FALSE(odd.Receive().has_value()) << size;
  }
  ExpectCount(*server, &StoreServerStatistics::no_greeting, 4);
}

// The last word of a client is what the others read.
TEST_F(TcpStoreLimitsTest, TamperingThatTheClientMetIsKnownToItsPeersAndCounted) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  WatchLog log;
  store->Watch(kSessionKeyPrefix, log.Callback());
  RawConnection rank(OpenByHand(server->address(), 1, absl::InfiniteDuration()));
  rank.Send(rank.Frame(store_internal::Refused{absl::DataLossError("frame 7 was altered")}));
  EXPECT_EQ(log.AwaitSession(1, Liveness::kLost).reason,
            "its connection was ended: at its end frame 7 was altered");
  ExpectCount(*server, &StoreServerStatistics::tampered, 1);
  EXPECT_EQ(server->Statistics().malformed, 0);
}

// What altered the length of a frame is no mistake of the rank.
TEST_F(TcpStoreLimitsTest, ALengthBeyondTheLimitOnASealedConnectionIsCountedAsTampering) {
  auto server = Serve();
  RawConnection rank(OpenByHand(server->address(), 1, absl::InfiniteDuration()));
  rank.Send("\xff\xff\xff\x7f");
  EXPECT_TRUE(rank.AwaitEnd());
  ExpectCount(*server, &StoreServerStatistics::tampered, 1);
  EXPECT_EQ(server->Statistics().malformed, 0);
}

class QueuesTest : public TcpStoreLimitsTest {
 protected:
  static constexpr int kRanks = 16;
  static constexpr size_t kMiB = 1 << 20;

  QueuesTest() {
    server_options_.world_size = kRanks;
    server_options_.max_queued_for_all = 24 * kMiB;
  }

  // One that reads only when the test does.
  std::unique_ptr<RawConnection> Deaf(const TcpStoreServer& server, int rank) {
    SessionInfo info = Info(rank);
    info.world_size = kRanks;
    auto opened = store_internal::OpenSession(
        {server.address(), token_, info, absl::InfiniteDuration(), Soon()});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return std::make_unique<RawConnection>(*std::move(opened));
  }

  static std::string Requests(RawConnection& connection, Request request, uint64_t count) {
    std::string frames;
    for (request.id = 1; request.id <= count; ++request.id) frames += connection.Frame(request);
    return frames;
  }

  static size_t Live(const TcpStoreServer& server) {
    size_t live = 0;
    for (const SessionRecord& record : server.Sessions()) {
      live += record.liveness == Liveness::kLive ? 1 : 0;
    }
    return live;
  }
};

// 16 ranks that do not read are owed 4 MiB each, more than all may be: they are the same for all.
TEST_F(QueuesTest, TheAnswerToAGatherIsHeldOnceForAllItsRanks) {
  constexpr size_t kValue = kMiB / 4;
  auto server = Serve();
  std::vector<std::unique_ptr<RawConnection>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(Deaf(*server, rank));
    Request gather;
    gather.type = Request::Type::kGather;
    gather.key = "g";
    gather.rank = rank;
    gather.size = kRanks;
    gather.value = std::string(kValue, static_cast<char>('a' + rank));
    ranks.back()->Send(Requests(*ranks.back(), gather, 1));
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto answer = ranks[rank]->Receive();
    ASSERT_TRUE(answer.has_value()) << rank;
    const auto& values = std::get<store_internal::Response>(*answer).values;
    ASSERT_EQ(values.size(), size_t{kRanks});
    for (int of = 0; of < kRanks; ++of) {
      EXPECT_EQ(values[of], std::string(kValue, static_cast<char>('a' + of))) << of;
    }
  }
  EXPECT_EQ(Live(*server), size_t{kRanks});
  EXPECT_EQ(server->Statistics().not_reading, 0);
}

TEST_F(QueuesTest, BeyondTheBoundForAllTheOneGoesForWhichTheMostWaits) {
  auto server = Serve();
  auto modest = Deaf(*server, 1);
  auto greedy = Deaf(*server, 2);
  Request set = SetRequest(1, "big");
  set.value = std::string(kMiB, 'x');
  modest->Send(modest->Frame(set));
  EXPECT_TRUE(modest->Receive().has_value());
  Request get;
  get.type = Request::Type::kGet;
  get.key = "big";
  // What the system buffers for a connection is well below what waits for the second one.
  constexpr uint64_t kModest = 14;
  modest->Send(Requests(*modest, get, kModest));
  greedy->Send(Requests(*greedy, get, 64));
  ExpectCount(*server, &StoreServerStatistics::not_reading, 1);
  const std::vector<SessionRecord> sessions = server->Sessions();
  ASSERT_EQ(sessions.size(), 2u);
  EXPECT_EQ(sessions[0].liveness, Liveness::kLive);
  EXPECT_THAT(sessions[1].reason, HasSubstr(" for all ranks, whose limit is 25165824"));
  for (uint64_t i = 0; i < kModest; ++i) EXPECT_TRUE(modest->Receive().has_value()) << i;
}

}  // namespace
}  // namespace muster::store_testing

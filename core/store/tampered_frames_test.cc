// Frames that somebody else sends, or sends again: they end their connection, alone, and change
// nothing.

#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/store/auth.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_test_util.h"
#include "muster/core/store/wire.h"

namespace muster::store_testing {
namespace {

using store_internal::EncodeFrame;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Liveness = SessionRecord::Liveness;

struct Tampering {
  std::string name;
  // What comes in place of two honest frames.
  std::string (*of)(const std::string& first, const std::string& second);
  std::string seen;
};

class TamperedFramesTest : public TcpStoreFixture,
                           public ::testing::WithParamInterface<Tampering> {};

TEST_P(TamperedFramesTest, EndTheirConnectionAloneAndBothEndsSayWhy) {
  auto server = Serve();
  auto store = Connect(server->address(), 0);
  WatchLog log;
  store->Watch(kSessionKeyPrefix, log.Callback());
  RawConnection session(OpenByHand(server->address(), 1, absl::InfiniteDuration()));
  const std::string first = session.Frame(SetRequest(1, "first"));
  const std::string second = session.Frame(SetRequest(2, "second"));
  session.Send(GetParam().of(first, second));
  EXPECT_THAT(LastWord(session), HasSubstr(GetParam().seen));
  EXPECT_THAT(log.AwaitSession(1, Liveness::kLost).reason,
              AllOf(HasSubstr("its connection was ended: "), HasSubstr(GetParam().seen)));
  EXPECT_EQ(Get(*store, "second").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Set(*store, "k", "v").ok());
}

INSTANTIATE_TEST_SUITE_P(
    Frames, TamperedFramesTest,
    ::testing::Values(Tampering{"Replayed",
                                [](const std::string& first, const std::string&) {
                                  return first + first;
                                },
                                "frame 1 was altered, replayed or out of order"},
                      Tampering{"Reordered",
                                [](const std::string& first, const std::string& second) {
                                  return second + first;
                                },
                                "frame 0 was altered, replayed or out of order"},
                      Tampering{"Altered",
                                [](const std::string& first, const std::string& second) {
                                  std::string altered = second;
                                  altered[altered.size() / 2] ^= 1;
                                  return first + altered;
                                },
                                "frame 1 was altered, replayed or out of order"},
                      Tampering{"AlteredInItsSeal",
                                [](const std::string& first, const std::string& second) {
                                  std::string altered = second;
                                  altered.back() ^= 1;
                                  return first + altered;
                                },
                                "frame 1 was altered, replayed or out of order"},
                      Tampering{"Truncated",
                                [](const std::string& first, const std::string& second) {
                                  std::string shorter = second.substr(0, second.size() - 1);
                                  --shorter[0];
                                  return first + shorter;
                                },
                                "frame 1 was altered, replayed or out of order"},
                      Tampering{"WithoutASeal",
                                [](const std::string& first, const std::string&) {
                                  return first + std::string("\x05\0\0\0abcde", 9);
                                },
                                "frame 1 came with 5 bytes and no seal"}),
    [](const auto& info) { return info.param.name; });

class ReplayTest : public TcpStoreFixture {};

TEST_F(ReplayTest, AFrameOfAnotherConnectionIsNoFrameOfThisOne) {
  auto server = Serve();
  RawConnection one(OpenByHand(server->address(), 1, absl::InfiniteDuration()));
  RawConnection other(OpenByHand(server->address(), 2, absl::InfiniteDuration()));
  other.Send(one.Frame(SetRequest(1, "k")));
  EXPECT_THAT(LastWord(other), HasSubstr("frame 0 was altered, replayed or out of order"));
  auto store = Connect(server->address(), 0);
  EXPECT_EQ(Get(*store, "k").status().code(), absl::StatusCode::kNotFound);
}

// The greeting alone, recorded and played again, opens nothing: the server's nonce is another.
TEST_F(ReplayTest, AGreetingThatIsPlayedAgainOpensNoSession) {
  auto server = Serve();
  std::string played = EncodeFrame(store_internal::Hello{store_internal::kWireVersion, Nonce()});
  store_internal::Open open;
  open.session = Info(1);
  {
    RawConnection honest(server->address());
    honest.Send(played);
    const auto challenge = honest.Receive();
    ASSERT_TRUE(challenge.has_value());
    const std::string nonce = std::get<store_internal::Challenge>(*challenge).nonce;
    open.proof = *store_internal::ClientProof(token_, Nonce(), nonce, EncodeFrame(open));
    honest.Send(EncodeFrame(open));
    honest.StartSealing(*store_internal::FrameSeal::Create(store_internal::FrameSeal::Side::kClient,
                                                           token_, Nonce(), nonce));
    const auto welcome = honest.Receive();
    ASSERT_TRUE(welcome.has_value() && std::holds_alternative<store_internal::Welcome>(*welcome));
  }
  RawConnection replay(server->address());
  replay.Send(played + EncodeFrame(open));
  ASSERT_TRUE(replay.Receive().has_value());
  const auto answer = replay.Receive();
  ASSERT_TRUE(answer.has_value() && std::holds_alternative<store_internal::Refused>(*answer));
  EXPECT_EQ(std::get<store_internal::Refused>(*answer).status.code(),
            absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace muster::store_testing

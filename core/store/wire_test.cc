#include "muster/core/store/wire.h"

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

namespace muster::store_internal {
namespace {

std::vector<Message> OneOfEach() {
  Request request;
  request.type = Request::Type::kGather;
  request.id = 0x0123456789abcdef;
  request.key = "key";
  request.value = std::string("va\0lue", 6);
  request.expected = -1;
  request.lifetime = Lifetime::kSession;
  request.rank = -2;
  request.size = 7;
  request.timeout = absl::Milliseconds(1500);
  request.members = {5, -1, 0};
  request.waits_in = "'train'";

  Response answer;
  answer.id = 9;
  answer.swapped = true;
  answer.revision = 11;
  answer.entry = {"k", "v", 10};
  answer.values = {"", "one", std::string(300, 'x')};

  Response failed;
  failed.id = 3;
  failed.status = absl::NotFoundError("no key");

  Response batch;
  batch.kind = Response::Kind::kWatchBatch;
  batch.id = 4;
  batch.events = {{WatchEvent::Kind::kPut, {"a", "1", 5}},
                  {WatchEvent::Kind::kDelete, {"b", "", 6}}};

  Open open;
  open.proof = std::string(32, 'p');
  open.session = {3, 4, "host b", 812, 0xfedcba9876543210u};
  open.heartbeat_timeout = absl::InfiniteDuration();

  return {Hello{kWireVersion, std::string(kNonceBytes, 'n')},
          Challenge{std::string(kNonceBytes, 'm'), std::string(32, 'q')},
          open,
          Welcome{"rank 0, host a, pid 7"},
          Refused{absl::AlreadyExistsError("rank 1 is already here")},
          request,
          answer,
          failed,
          batch};
}

std::string BodyOf(const std::string& frame) { return frame.substr(4); }

TEST(WireTest, EveryMessageComesBackAsItWas) {
  for (const Message& message : OneOfEach()) {
    const std::string frame = EncodeFrame(message);
    const auto decoded = DecodeBody(BodyOf(frame));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->index(), message.index());
    EXPECT_EQ(EncodeFrame(*decoded), frame);
  }
  const auto request = DecodeBody(BodyOf(EncodeFrame(OneOfEach()[5])));
  const Request& decoded = std::get<Request>(*request);
  EXPECT_EQ(decoded.type, Request::Type::kGather);
  EXPECT_EQ(decoded.value, std::string("va\0lue", 6));
  EXPECT_EQ(decoded.expected, -1);
  EXPECT_EQ(decoded.lifetime, Lifetime::kSession);
  EXPECT_EQ(decoded.rank, -2);
  EXPECT_EQ(decoded.timeout, absl::Milliseconds(1500));
  EXPECT_EQ(decoded.members, (std::vector<int32_t>{5, -1, 0}));
  EXPECT_EQ(decoded.waits_in, "'train'");
  const auto open = DecodeBody(BodyOf(EncodeFrame(OneOfEach()[2])));
  EXPECT_EQ(std::get<Open>(*open).heartbeat_timeout, absl::InfiniteDuration());
  EXPECT_EQ(std::get<Open>(*open).session.incarnation, 0xfedcba9876543210u);
}

TEST(WireTest, EveryTruncationAndEveryExtensionIsRefused) {
  for (const Message& message : OneOfEach()) {
    const std::string body = BodyOf(EncodeFrame(message));
    for (size_t length = 0; length < body.size(); ++length) {
      EXPECT_FALSE(DecodeBody(body.substr(0, length)).ok())
          << "message " << message.index() << ", " << length << " of " << body.size();
    }
    EXPECT_FALSE(DecodeBody(body + '\0').ok());
  }
}

TEST(WireTest, GarbageIsRefusedOrReadAsAMessageAndNeverMore) {
  std::mt19937 random(11);
  const std::vector<Message> messages = OneOfEach();
  for (int i = 0; i < 50000; ++i) {
    std::string body = BodyOf(EncodeFrame(messages[i % messages.size()]));
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int change = 0; change < changes; ++change) {
      body[random() % body.size()] = static_cast<char>(random());
    }
    const auto decoded = DecodeBody(body);
    // What was accepted means what it says: it encodes to as much.
    if (decoded.ok()) {
      EXPECT_LE(EncodeFrame(*decoded).size(), body.size() + 4);
    }
    std::string noise(random() % 200, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    DecodeBody(noise).status().IgnoreError();
  }
}

TEST(WireTest, ACountBeyondTheFrameIsRefusedBeforeAnythingIsMadeForIt) {
  Response response;
  std::string body = BodyOf(EncodeFrame(response));
  // The number of values stands before the number of events, at the end.
  for (size_t i = body.size() - 8; i < body.size() - 4; ++i) body[i] = '\xff';
  EXPECT_FALSE(DecodeBody(body).ok());
}

// What one rank is sent is not different because others are sent the same.
TEST(WireTest, AnAnswerInPartsIsTheFrameOfTheWholeAnswer) {
  Response response;
  response.id = 9;
  response.revision = 11;
  for (const std::vector<std::string>& values :
       {std::vector<std::string>{}, {""}, {"a", "", std::string(300, 'b')}}) {
    const auto shared = std::make_shared<const std::string>(EncodeValues(values));
    FrameParts parts = EncodeAnswer(response, shared);
    Response whole = response;
    whole.values = values;
    std::string frame = EncodeFrame(whole);
    EXPECT_EQ(parts.head + *parts.shared + parts.tail, frame);
    EXPECT_EQ(parts.size(), frame.size());
    ExtendFrame(&parts, "the end");
    ExtendFrame(&frame, "the end");
    EXPECT_EQ(parts.head + *parts.shared + parts.tail, frame);
  }
}

TEST(WireTest, AnUnknownTypeOrCodeIsRefused) {
  EXPECT_FALSE(DecodeBody("").ok());
  for (int type = 0; type < 256; ++type) {
    if ((type >= 1 && type <= 5) || type == 16 || type == 17) continue;
    EXPECT_FALSE(DecodeBody(std::string(1, static_cast<char>(type))).ok()) << type;
  }
  std::string hello = BodyOf(EncodeFrame(Hello{kWireVersion, "n"}));
  hello[5] = 'M';  // of the magic word
  EXPECT_FALSE(DecodeBody(hello).ok());
}

TEST(FrameReaderTest, CutsTheSameFramesHoweverTheBytesArrive) {
  std::string stream;
  std::vector<std::string> bodies;
  for (const Message& message : OneOfEach()) {
    const std::string frame = EncodeFrame(message);
    stream += frame;
    bodies.push_back(BodyOf(frame));
  }
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{7}, size_t{100}, stream.size()}) {
    FrameReader reader(kMaxRequestBytes);
    std::vector<std::string> seen;
    for (size_t begin = 0; begin < stream.size(); begin += piece) {
      reader.Append(stream.substr(begin, piece));
      for (;;) {
        const auto body = reader.Next();
        ASSERT_TRUE(body.ok()) << body.status();
        if (!body->has_value()) break;
        seen.emplace_back(**body);
      }
    }
    EXPECT_EQ(seen, bodies) << piece;
    EXPECT_EQ(reader.pending(), 0u);
  }
}

TEST(FrameReaderTest, AFrameBeyondTheLimitIsRefusedByItsLengthAlone) {
  FrameReader reader(100);
  reader.Append(std::string("\x64\0\0\0", 4));
  EXPECT_TRUE(reader.Next().ok());
  FrameReader refusing(100);
  refusing.Append(std::string("\x65\0\0\0", 4));
  EXPECT_EQ(refusing.Next().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(refusing.Next().ok());
  FrameReader huge(kMaxResponseBytes);
  huge.Append("\xff\xff\xff\xff");
  EXPECT_FALSE(huge.Next().ok());
}

TEST(FrameReaderTest, ALongStreamOfSmallFramesKeepsNoOldBytes) {
  FrameReader reader(100);
  const std::string frame("\x02\0\0\0ab", 6);
  for (int i = 0; i < 10000; ++i) {
    reader.Append(frame + frame.substr(0, 3));
    ASSERT_TRUE(reader.Next()->has_value());
    EXPECT_FALSE(reader.Next()->has_value());
    reader.Append(frame.substr(3));
    ASSERT_TRUE(reader.Next()->has_value());
  }
  EXPECT_EQ(reader.pending(), 0u);
}

}  // namespace
}  // namespace muster::store_internal

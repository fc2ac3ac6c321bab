#include "muster/core/store/frame_seal.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/wire.h"

namespace muster::store_internal {
namespace {

FrameSeal Make(FrameSeal::Side side, absl::string_view token = "token",
               absl::string_view server_nonce = "s") {
  absl::StatusOr<FrameSeal> seal = FrameSeal::Create(side, token, "c", server_nonce);
  EXPECT_TRUE(seal.ok()) << seal.status();
  return *std::move(seal);
}

std::string Frame(uint64_t id) {
  Request request;
  request.id = id;
  return EncodeFrame(request);
}

std::string SealedBy(FrameSeal& seal, uint64_t id) {
  std::string frame = Frame(id);
  EXPECT_TRUE(seal.Seal(&frame).ok());
  return frame;
}

TEST(FrameSealTest, WhatOneSideSealsTheOtherOpensInBothDirections) {
  FrameSeal client = Make(FrameSeal::Side::kClient);
  FrameSeal server = Make(FrameSeal::Side::kServer);
  for (uint64_t id = 0; id < 300; ++id) {
    const std::string request = SealedBy(client, id);
    EXPECT_EQ(request.size(), Frame(id).size() + FrameSeal::kBytes);
    // A whole frame: the reader cuts it as any other.
    FrameReader reader(request.size());
    reader.Append(request);
    const auto body = reader.Next();
    ASSERT_TRUE(body.ok() && body->has_value());
    const auto message = server.Open(**body);
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_EQ(*message, MessageOf(Frame(id)));
    const std::string response = SealedBy(server, 2 * id);
    const auto answer = client.Open(MessageOf(response));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(*answer, MessageOf(Frame(2 * id)));
  }
}

TEST(FrameSealTest, AFrameInPartsHasTheSealOfTheWhole) {
  FrameSeal whole = Make(FrameSeal::Side::kServer);
  FrameSeal in_parts = Make(FrameSeal::Side::kServer);
  Response response;
  const auto values = std::make_shared<const std::string>(EncodeValues({"a", "b"}));
  for (const auto& shared : {values, values}) {
    FrameParts parts = EncodeAnswer(response, shared);
    std::string frame = parts.head + *shared + parts.tail;
    ASSERT_TRUE(whole.Seal(&frame).ok());
    ASSERT_TRUE(in_parts.Seal(&parts).ok());
    EXPECT_EQ(parts.head + *shared + parts.tail, frame);
  }
  FrameParts without{Frame(3), nullptr, ""};
  std::string frame = Frame(3);
  ASSERT_TRUE(whole.Seal(&frame).ok());
  ASSERT_TRUE(in_parts.Seal(&without).ok());
  EXPECT_EQ(without.head + without.tail, frame);
}

TEST(FrameSealTest, EveryBitCounts) {
  FrameSeal client = Make(FrameSeal::Side::kClient);
  const std::string frame = SealedBy(client, 7);
  const std::string body(MessageOf(frame));
  for (size_t bit = 0; bit < 8 * body.size(); ++bit) {
    std::string altered = body;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
    FrameSeal server = Make(FrameSeal::Side::kServer);
    EXPECT_EQ(server.Open(altered).status().code(), absl::StatusCode::kDataLoss) << bit;
  }
  for (size_t size = 0; size < body.size(); ++size) {
    FrameSeal server = Make(FrameSeal::Side::kServer);
    EXPECT_EQ(server.Open(body.substr(0, size)).status().code(), absl::StatusCode::kDataLoss)
        << size;
  }
}

TEST(FrameSealTest, AFrameHoldsAtItsPlaceOfItsDirectionOfItsConnectionOnly) {
  FrameSeal client = Make(FrameSeal::Side::kClient);
  const std::string first = SealedBy(client, 1);
  const std::string second = SealedBy(client, 2);
  const auto opens = [](FrameSeal seal, const std::string& frame) {
    return seal.Open(MessageOf(frame)).ok();
  };
  EXPECT_TRUE(opens(Make(FrameSeal::Side::kServer), first));
  EXPECT_FALSE(opens(Make(FrameSeal::Side::kServer), second)) << "the first is missing";
  EXPECT_FALSE(opens(Make(FrameSeal::Side::kClient), first)) << "sent back to its sender";
  EXPECT_FALSE(opens(Make(FrameSeal::Side::kServer, "other"), first));
  EXPECT_FALSE(opens(Make(FrameSeal::Side::kServer, "token", "another connection"), first));
  FrameSeal server = Make(FrameSeal::Side::kServer);
  EXPECT_TRUE(server.Open(MessageOf(first)).ok());
  EXPECT_FALSE(server.Open(MessageOf(first)).ok()) << "it was there already";
  EXPECT_FALSE(server.Open(MessageOf(second)).ok()) << "nothing after a false one is believed";
}

}  // namespace
}  // namespace muster::store_internal

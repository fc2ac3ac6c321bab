#include "muster/core/store/auth.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(AuthTest, HmacGivesTheKnownAnswers) {
  // RFC 4231, test cases 1, 2 and 6.
  EXPECT_EQ(
      absl::BytesToHexString(*store_internal::HmacSha256(std::string(20, '\x0b'), "Hi There")),
      "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(
      absl::BytesToHexString(*store_internal::HmacSha256("Jefe", "what do ya want for nothing?")),
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      absl::BytesToHexString(*store_internal::HmacSha256(
          std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_TRUE(store_internal::HmacSha256("", "").ok());
}

TEST(AuthTest, KeysAreDerivedWithTheKnownAnswers) {
  // RFC 5869, test cases 1 and 3.
  EXPECT_EQ(absl::BytesToHexString(*store_internal::DeriveKey(
                std::string(22, '\x0b'),
                std::string("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c", 13),
                "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9", 42)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  EXPECT_EQ(absl::BytesToHexString(*store_internal::DeriveKey(std::string(22, '\x0b'), "", "", 42)),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

TEST(AuthTest, AKeyedMacIsTheHmacOfTheNumberAndTheMessageHoweverOftenItIsUsed) {
  auto mac = store_internal::KeyedMac::Create("Jefe");
  ASSERT_TRUE(mac.ok()) << mac.status();
  for (int i = 0; i < 3; ++i) {
    std::string seal = "before";
    ASSERT_TRUE(mac->Append(0x0102, "message", &seal).ok());
    EXPECT_EQ(seal, "before" + *store_internal::HmacSha256(
                                   "Jefe", std::string("\x02\x01\0\0\0\0\0\0message", 15)));
  }
}

TEST(AuthTest, AKeyHoldsForItsTokenNoncesAndDirectionOnly) {
  using store_internal::DirectionKey;
  const std::string key = *DirectionKey("token", "c", "s", "of the client");
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key, *DirectionKey("token", "c", "s", "of the client"));
  EXPECT_NE(key, *DirectionKey("other", "c", "s", "of the client"));
  EXPECT_NE(key, *DirectionKey("token", "x", "s", "of the client"));
  EXPECT_NE(key, *DirectionKey("token", "c", "x", "of the client"));
  EXPECT_NE(key, *DirectionKey("token", "c", "s", "of the server"));
  EXPECT_NE(*DirectionKey("t", "ab", "c", ""), *DirectionKey("t", "a", "bc", ""));
  EXPECT_TRUE(DirectionKey("", "", "", "").ok()) << "a job on one host needs no token";
}

TEST(AuthTest, AProofHoldsForItsTokenNoncesSideAndContentOnly) {
  using store_internal::ClientProof;
  using store_internal::SameProof;
  using store_internal::ServerProof;
  const std::string proof = *ClientProof("token", "c", "s", "rank 1");
  EXPECT_TRUE(SameProof(proof, *ClientProof("token", "c", "s", "rank 1")));
  EXPECT_FALSE(SameProof(proof, *ClientProof("other", "c", "s", "rank 1")));
  EXPECT_FALSE(SameProof(proof, *ClientProof("token", "x", "s", "rank 1")));
  EXPECT_FALSE(SameProof(proof, *ClientProof("token", "c", "x", "rank 1")));
  EXPECT_FALSE(SameProof(proof, *ClientProof("token", "c", "s", "rank 2")));
  EXPECT_FALSE(SameProof(*ClientProof("token", "c", "s", ""), *ServerProof("token", "c", "s")));
  EXPECT_FALSE(SameProof(*ServerProof("token", "ab", "c"), *ServerProof("token", "a", "bc")));
  EXPECT_FALSE(SameProof(proof, ""));
  EXPECT_FALSE(SameProof(proof, proof.substr(1)));
}

TEST(AuthTest, EveryTokenIsAnother) {
  const auto first = RandomToken();
  const auto second = RandomToken();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->size(), 64u);
  EXPECT_NE(*first, *second);
}

}  // namespace
}  // namespace muster

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

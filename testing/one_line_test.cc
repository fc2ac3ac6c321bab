#include "muster/testing/one_line.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace testing {
namespace {

TEST(OneLineTest, EachRunOfWhiteSpaceIsOneSpace) {
  EXPECT_EQ(
      OneLine("Expected equality of these values:\n  value\n    Which is: 3\n  7\n\tmine  \n"),
      "Expected equality of these values: value Which is: 3 7 mine");
}

TEST(OneLineTest, ThatSomethingFailedIsSaidByWhatDid) {
  EXPECT_EQ(OneLine("Failed\nlabel 17 out of range"), "label 17 out of range");
  EXPECT_EQ(OneLine("Failed\n"), "Failed");
  EXPECT_EQ(OneLine("Failed to open x"), "Failed to open x");
  EXPECT_EQ(OneLine(""), "");
}

TEST(OneLineTest, ALongOneIsCut) {
  EXPECT_EQ(OneLine("abcdef", 6), "abcdef");
  EXPECT_EQ(OneLine("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace testing
}  // namespace muster

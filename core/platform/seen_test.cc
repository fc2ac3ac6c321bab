#include "muster/core/platform/seen.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(SeenTest, WhatIsPlainStandsAsItIs) { EXPECT_EQ(Seen("train"), "\"train\""); }

TEST(SeenTest, NothingMovesATerminalOrEndsTheLine) {
  EXPECT_EQ(Seen("a\n\x1b[31m\""), R"("a\n\x1b[31m\"")");
}

TEST(SeenTest, ALongOneIsCutAndCounted) {
  EXPECT_EQ(Seen(std::string(80, 'x')), "\"" + std::string(80, 'x') + "\"");
  EXPECT_EQ(Seen(std::string(81, 'x')), "\"" + std::string(80, 'x') + "...\" (81 bytes)");
}

}  // namespace
}  // namespace muster

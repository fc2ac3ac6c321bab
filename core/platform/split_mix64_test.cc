#include "muster/core/platform/split_mix64.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace muster {
namespace {

// Of the paper's reference implementation, from seed 0.
TEST(SplitMix64Test, GivesTheSameNumbersEverywhere) {
  SplitMix64 random(0);
  EXPECT_EQ(random.Next(), uint64_t{0xe220a8397b1dcdaf});
  EXPECT_EQ(random.Next(), uint64_t{0x6e789e6aa1b965f4});
  EXPECT_EQ(random.Next(), uint64_t{0x06c45d188009454f});
}

TEST(SplitMix64Test, BelowIsBelow) {
  SplitMix64 random(1);
  for (uint64_t bound : {uint64_t{1}, uint64_t{2}, uint64_t{10}, (uint64_t{1} << 63) + 1}) {
    for (int i = 0; i < 100; ++i) EXPECT_LT(random.Below(bound), bound);
  }
}

}  // namespace
}  // namespace muster

// Every seed of a fuzz target, what is left when it breaks off, and changes of it: in the ordinary
// run, with any compiler.

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "muster/core/platform/split_mix64.h"
#include "muster/core/store/fuzz/fuzz_target.h"

namespace muster::store_fuzz {
namespace {

void Replay(const std::string& bytes) {
  EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
            0);
}

TEST(ReplayTest, TheSeedsAsTheyAre) {
  ASSERT_GT(Seeds().size(), 20u);
  for (const Seed& seed : Seeds()) {
    SCOPED_TRACE(seed.name);
    Replay(seed.bytes);
  }
}

TEST(ReplayTest, TheSeedsBrokenOff) {
  for (const Seed& seed : Seeds()) {
    SCOPED_TRACE(seed.name);
    const size_t step = 1 + seed.bytes.size() / 8;
    for (size_t size = 0; size < seed.bytes.size(); size += step)
      Replay(seed.bytes.substr(0, size));
  }
}

TEST(ReplayTest, TheSeedsChanged) {
  const std::vector<Seed> seeds = Seeds();
  SplitMix64 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = seeds[random.Below(seeds.size())].bytes;
    // One after another, since what is right so far leads further in.
    for (uint64_t change = 1 + random.Below(3); change > 0; --change) {
      const size_t at = random.Below(bytes.size());
      switch (random.Below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random.Next());
          break;
        case 1:
          bytes.insert(at, 1, static_cast<char>(random.Next()));
          break;
        case 2:
          bytes += seeds[random.Below(seeds.size())].bytes.substr(1);
          break;
        default:
          if (bytes.size() > 1) bytes.erase(at, 1);
          break;
      }
    }
    Replay(bytes);
  }
}

}  // namespace
}  // namespace muster::store_fuzz

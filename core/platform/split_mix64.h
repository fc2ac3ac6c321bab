// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). Not
// <random>: the standard leaves std::shuffle's use of its generator open, and ranks may be built
// with different libraries.
//
//   SplitMix64 random(seed);
//   for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
#ifndef MUSTER_CORE_PLATFORM_SPLIT_MIX64_H_
#define MUSTER_CORE_PLATFORM_SPLIT_MIX64_H_

#include <cstdint>

namespace muster {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound): values of the incomplete last round are thrown away.
  uint64_t Below(uint64_t bound) {
    const uint64_t reject_from = ~uint64_t{0} - (~uint64_t{0} % bound + 1) % bound;
    uint64_t value = Next();
    while (value > reject_from) value = Next();
    return value % bound;
  }

 private:
  uint64_t state_;
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_SPLIT_MIX64_H_

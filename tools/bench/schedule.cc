#include "muster/tools/bench/schedule.h"

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace muster {
namespace bench {
namespace {

// SplitMix64: std::shuffle and the distributions are not the same everywhere.
uint64_t Next(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<int> RoundOrder(uint64_t seed, int64_t round, int subjects) {
  std::vector<int> order(static_cast<size_t>(subjects));
  std::iota(order.begin(), order.end(), 0);
  uint64_t state = seed;
  state = Next(&state) ^ static_cast<uint64_t>(round);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(Next(&state) % i)]);
  }
  return order;
}

}  // namespace bench
}  // namespace muster

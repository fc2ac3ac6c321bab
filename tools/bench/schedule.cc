#include "muster/tools/bench/schedule.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "muster/core/platform/split_mix64.h"

namespace muster {
namespace bench {
std::vector<int> RoundOrder(uint64_t seed, int64_t round, int subjects) {
  std::vector<int> order(static_cast<size_t>(subjects));
  std::iota(order.begin(), order.end(), 0);
  SplitMix64 random(SplitMix64(seed).Next() ^ static_cast<uint64_t>(round));
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(random.Below(i))]);
  }
  return order;
}

}  // namespace bench
}  // namespace muster

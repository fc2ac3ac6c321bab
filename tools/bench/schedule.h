// In which order the subjects have their turn. Every rank computes the same one.
#ifndef MUSTER_TOOLS_BENCH_SCHEDULE_H_
#define MUSTER_TOOLS_BENCH_SCHEDULE_H_

#include <cstdint>
#include <vector>

namespace muster {
namespace bench {

// A permutation of 0 to subjects - 1: another one each round, so that no subject always follows the
// same one or always meets the same disturbance. It depends on the arguments alone, not on the
// standard library.
std::vector<int> RoundOrder(uint64_t seed, int64_t round, int subjects);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_SCHEDULE_H_

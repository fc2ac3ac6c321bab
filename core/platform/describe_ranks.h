// Ranks in a message, the same everywhere.
#ifndef MUSTER_CORE_PLATFORM_DESCRIBE_RANKS_H_
#define MUSTER_CORE_PLATFORM_DESCRIBE_RANKS_H_

#include <string>

#include "absl/types/span.h"

namespace muster {

// "rank 3"; "ranks 0, 1, 4"; of four and more without a gap "ranks 0 to 7"; of more than eight else
// "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 92 more". `ranks` in ascending order.
std::string DescribeRanks(absl::Span<const int> ranks);

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_DESCRIBE_RANKS_H_

// What a row of the table says about many samples.
#ifndef MUSTER_TOOLS_BENCH_STATISTICS_H_
#define MUSTER_TOOLS_BENCH_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {
namespace bench {

// In the unit of the samples.
struct Summary {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
  int64_t samples = 0;
};

// The median is the mean of the middle two where their number is even; p10 and p90 are samples, by
// nearest rank: the smallest one that at least that share does not exceed. InvalidArgument without
// samples and for one that is not finite.
absl::StatusOr<Summary> Summarize(std::vector<double> samples);

// `numerator` / `denominator`. InvalidArgument unless both are finite and above 0: a ratio with
// anything else says nothing.
absl::StatusOr<double> Ratio(double numerator, double denominator);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_STATISTICS_H_

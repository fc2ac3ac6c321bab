#include "muster/tools/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace bench {
namespace {

double NearestRank(const std::vector<double>& sorted, size_t percent) {
  const size_t rank = (percent * sorted.size() + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

}  // namespace

absl::StatusOr<Summary> Summarize(std::vector<double> samples) {
  if (samples.empty()) return absl::InvalidArgumentError("there are no samples to summarize");
  for (double sample : samples) {
    if (!std::isfinite(sample)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a sample is ", sample, ": expected a finite number"));
    }
  }
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  Summary summary;
  summary.median =
      samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  summary.p10 = NearestRank(samples, 10);
  summary.p90 = NearestRank(samples, 90);
  summary.samples = static_cast<int64_t>(samples.size());
  return summary;
}

absl::StatusOr<double> Ratio(double numerator, double denominator) {
  for (double value : {numerator, denominator}) {
    if (!std::isfinite(value) || value <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("a ratio of ", numerator, " to ", denominator,
                                                     ": expected two numbers greater than 0"));
    }
  }
  return numerator / denominator;
}

}  // namespace bench
}  // namespace muster

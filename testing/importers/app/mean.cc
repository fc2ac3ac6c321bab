#include "app/mean.h"

#include <numeric>

#include "absl/status/status.h"

namespace app {

absl::StatusOr<double> MeanOverRanks(muster::Group& group, absl::Span<const double> values) {
  double sums[] = {std::accumulate(values.begin(), values.end(), 0.0),
                   static_cast<double>(values.size())};
  absl::Status status =
      group.AllReduce(muster::Buffer::Of(absl::MakeSpan(sums)), muster::ReduceOp::kSum);
  if (!status.ok()) return status;
  if (sums[1] == 0) return absl::InvalidArgumentError("mean over ranks: no rank has a value");
  return sums[0] / sums[1];
}

}  // namespace app

#include "muster/trainer/metrics.h"

#include "absl/types/span.h"

namespace muster {

absl::StatusOr<MetricSums> ReduceMetrics(Collectives& collectives, const MetricSums& here) {
  double sums[] = {here.loss, here.correct, here.count};
  absl::Status status = collectives.AllReduce(Buffer::Of(absl::MakeSpan(sums)), ReduceOp::kSum);
  if (!status.ok()) return status;
  return MetricSums{sums[0], sums[1], sums[2]};
}

}  // namespace muster

#include "muster/trainer/metrics.h"

#include "absl/strings/str_format.h"
#include "absl/types/span.h"

namespace muster {

std::string MetricSums::ToString() const {
  std::string text = absl::StrFormat("loss %.4f", mean_loss());
  if (has_accuracy()) absl::StrAppendFormat(&text, ", accuracy %.4f", accuracy());
  return text;
}

absl::StatusOr<MetricSums> ReduceMetrics(Collectives& collectives, const MetricSums& here) {
  double sums[] = {here.loss, here.correct, here.count, here.unrated};
  absl::Status status = collectives.AllReduce(Buffer::Of(absl::MakeSpan(sums)), ReduceOp::kSum);
  if (!status.ok()) return status;
  return MetricSums{sums[0], sums[1], sums[2], sums[3]};
}

}  // namespace muster

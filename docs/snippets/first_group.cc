// docs/start.md: the first group. Prints what each rank has after an average over all ranks.
#include <iostream>
#include <memory>
#include <vector>

#include "absl/log/initialize.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/group.h"

absl::Status AverageOverRanks(absl::Span<float> gradients) {
  // Finds out who started us. There is no global pool: this one lives here.
  absl::StatusOr<std::unique_ptr<muster::GroupPool>> pool = muster::GroupPool::FromEnvironment();
  if (!pool.ok()) return pool.status();

  muster::GroupSpec spec;
  spec.name = "train";
  spec.operation_timeout = absl::Minutes(2);
  absl::StatusOr<muster::GroupLease> group = (*pool)->Acquire(spec);
  if (!group.ok()) return group.status();

  absl::Status status =
      (*group)->AllReduce(muster::Buffer::Of(gradients), muster::ReduceOp::kAverage);
  if (!status.ok()) return status;  // the same cause on every rank

  return group->Close();  // on every rank; or let the destructors do it, within their bounds
}

int main() {
  absl::InitializeLog();
  std::vector<float> gradients = {1, 2};
  const absl::Status status = AverageOverRanks(absl::MakeSpan(gradients));
  if (!status.ok()) {
    std::cerr << "first_group: " << status << "\n";
    return 1;
  }
  std::cout << "average: " << gradients[0] << ", " << gradients[1] << "\n";
  return 0;
}

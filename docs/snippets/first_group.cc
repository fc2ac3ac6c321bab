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

absl::Status AverageOverRanks(muster::GroupPool& pool, absl::Span<float> gradients) {
  muster::GroupSpec spec;
  spec.name = "train";
  spec.operation_timeout = absl::Minutes(2);
  // The first time all ranks make the group; afterwards they get it again, without a message.
  absl::StatusOr<muster::GroupLease> lease = pool.Acquire(spec);
  if (!lease.ok()) return lease.status();
  // An error is the same cause on every rank. The lease ends here, the group with its pool.
  return (*lease)->AllReduce(muster::Buffer::Of(gradients), muster::ReduceOp::kAverage);
}

int Fail(const absl::Status& status) {
  std::cerr << "first_group: " << status << "\n";
  return 1;
}

int main() {
  absl::InitializeLog();
  // Finds out who started us. There is no global pool: this one lives here.
  absl::StatusOr<std::unique_ptr<muster::GroupPool>> pool = muster::GroupPool::FromEnvironment();
  if (!pool.ok()) return Fail(pool.status());

  std::vector<float> gradients = {1, 2};
  absl::Status status = AverageOverRanks(**pool, absl::MakeSpan(gradients));
  if (!status.ok()) return Fail(status);
  std::cout << "average: " << gradients[0] << ", " << gradients[1] << "\n";

  // Says what became of it, within 5 s; the destructor would end it, too.
  status = (*pool)->Close(absl::Seconds(5));
  return status.ok() ? 0 : Fail(status);
}

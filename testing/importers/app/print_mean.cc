// Prints the mean of the numbers that the ranks of a job have as arguments:
//   muster run -n 2 -- print_mean 1 2
#include <iostream>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "app/mean.h"
#include "muster/core/group.h"

int main(int argc, char** argv) {
  std::vector<double> values;
  for (int i = 1; i < argc; ++i) {
    double value = 0;
    if (!absl::SimpleAtod(argv[i], &value)) {
      std::cerr << "print_mean: '" << argv[i] << "' is no number\n";
      return 2;
    }
    values.push_back(value);
  }

  absl::StatusOr<std::unique_ptr<muster::GroupPool>> pool = muster::GroupPool::FromEnvironment();
  absl::Status status = pool.status();
  if (status.ok()) {
    muster::GroupSpec spec;
    spec.name = "mean";
    spec.backend = "gloo";
    absl::StatusOr<muster::GroupLease> group = (*pool)->Acquire(spec);
    status = group.status();
    if (status.ok()) {
      const absl::StatusOr<double> mean = app::MeanOverRanks(**group, values);
      status = mean.status();
      if (status.ok()) status = group->Close();
      if (status.ok()) std::cout << "mean: " << *mean << "\n";
    }
  }
  if (!status.ok()) std::cerr << "print_mean: " << status << "\n";
  return status.ok() ? 0 : 1;
}

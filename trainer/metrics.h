// What a batch tells about the model, as sums: sums of parts add up to the sum of the whole, means
// do not.
//
//   MetricSums sums;   // of this rank's samples
//   absl::StatusOr<MetricSums> all = ReduceMetrics(collectives, sums);   // of all ranks' samples
//   all->mean_loss();                                                    // the same on each rank
#ifndef MUSTER_TRAINER_METRICS_H_
#define MUSTER_TRAINER_METRICS_H_

#include <string>

#include "absl/status/statusor.h"
#include "muster/trainer/collectives.h"

namespace muster {

// A value type. In f64: a count is exact up to 2^53, and a long epoch's loss does not drown its
// last batches.
struct MetricSums {
  double loss = 0;     // sum over samples
  double correct = 0;  // samples that were classified right
  double count = 0;    // samples
  double unrated = 0;  // samples that are neither right nor wrong: all of a regression's

  void Add(const MetricSums& other) {
    loss += other.loss;
    correct += other.correct;
    count += other.count;
    unrated += other.unrated;
  }
  // 0 while nothing was counted.
  double mean_loss() const { return count > 0 ? loss / count : 0; }
  double accuracy() const { return count > 0 ? correct / count : 0; }
  // Where a sample is unrated no accuracy is printed; a classifier that is never right has one: 0.
  bool has_accuracy() const { return unrated == 0; }
  // "loss 0.4312, accuracy 0.8493"
  std::string ToString() const;
};

// The sums over all ranks, the same bits on each. Collective. Errors are the group's.
absl::StatusOr<MetricSums> ReduceMetrics(Collectives& collectives, const MetricSums& here);

}  // namespace muster

#endif  // MUSTER_TRAINER_METRICS_H_

// Data-parallel training: each rank takes its part of every batch, gradients are averaged, and all
// ranks do the same step.
#ifndef MUSTER_TRAINER_FIT_LOOP_H_
#define MUSTER_TRAINER_FIT_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/trainer/bucket_layout.h"
#include "muster/trainer/data.h"
#include "muster/trainer/distributed_sampler.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/metrics.h"
#include "muster/trainer/module.h"
#include "muster/trainer/reducer.h"
#include "muster/trainer/sgd.h"
#include "muster/trainer/stage_loop.h"

namespace muster {

enum class LearningRateSchedule {
  kConstant,
  // From sgd.learning_rate in the first step towards 0 after the last one: the noise of single
  // batches, which keeps the weights from settling, fades.
  kLinear,
};

struct FitOptions {
  int64_t max_epochs = 1;
  int64_t batch_size = 64;  // samples of one rank in one step
  // When not 0, samples of all ranks together in one step, a multiple of their number; batch_size
  // is not used then.
  int64_t global_batch_size = 0;
  SgdOptions sgd;
  LearningRateSchedule schedule = LearningRateSchedule::kConstant;
  uint64_t seed = 0;  // of the order of samples
  Remainder remainder = Remainder::kPad;
  BucketSizes buckets;

  // InvalidArgument naming the field, its value and what is accepted.
  absl::Status Validate(int world_size) const;
  // Samples of one rank in one step. Errors as Validate, of the two fields that it follows from.
  absl::StatusOr<int64_t> BatchSizeOfRank(int world_size) const;
};

// Over all ranks.
struct EpochResult {
  int64_t epoch = 0;    // from 1
  MetricSums training;  // gathered while the weights changed
  std::optional<MetricSums> validation;
  absl::Duration duration;        // of the training part
  double samples_per_second = 0;  // of it
};

class FitLoop final : public StageLoop {
 public:
  // Called at the end of each epoch. An error on any rank ends the stage on all, together.
  using EpochCallback = std::function<absl::Status(const EpochResult&)>;

  // `validation` may be null. Borrows all that it is given, and asks the module to place its
  // gradients in this loop's memory until the destructor.
  FitLoop(const StageContext& context, Module& module, Dataset& train, Dataset* validation,
          const FitOptions& options, EpochCallback on_epoch);
  ~FitLoop() override;

  // Also broadcasts the parameters of rank 0. InvalidArgument: options, an empty data set, facts
  // that differ between ranks.
  absl::Status Prepare() override;
  absl::Status Run() override;
  bool known_to_all() const override { return known_to_all_; }

  const std::vector<EpochResult>& results() const { return results_; }

 private:
  absl::Status ValidateHere() const;
  SamplerOptions MakeSamplerOptions() const;
  absl::Status RunEpoch(EpochResult& result);
  absl::Status Step(absl::Span<const int64_t> indices, MetricSums& sums);
  double LearningRate() const;             // of the next step
  std::string Label(int64_t epoch) const;  // "fit 2/5"

  const StageContext context_;
  Module& module_;
  Dataset& train_;
  Dataset* const validation_;
  const FitOptions options_;
  const EpochCallback on_epoch_;
  const int64_t batch_size_;  // of this rank; 0 while the options are not valid

  // From Prepare on.
  std::optional<DistributedSampler> sampler_;
  std::optional<BatchMemory> memory_;
  std::optional<Evaluator> evaluator_;
  std::optional<Sgd> sgd_;
  int64_t steps_ = 0;  // done
  bool known_to_all_ = false;
  std::unique_ptr<Reducer> reducer_;
  std::vector<EpochResult> results_;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_FIT_LOOP_H_

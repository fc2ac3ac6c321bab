// Metrics of a module on a data set, over all ranks, each sample counted exactly once.
//
// The ranks' shares may differ by one sample, and a rank may have none: no collective depends on
// the number of batches, there is one at the end.
#ifndef MUSTER_TRAINER_EVALUATION_H_
#define MUSTER_TRAINER_EVALUATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/trainer/data.h"
#include "muster/trainer/distributed_sampler.h"
#include "muster/trainer/metrics.h"
#include "muster/trainer/module.h"
#include "muster/trainer/stage_loop.h"

namespace muster {

// The part that fit shares: no agreement, which is fit's own there. Borrows all that it is given.
class Evaluator {
 public:
  // `batch_size` is at least 1.
  Evaluator(const StageContext& context, Module& module, Dataset& data, int64_t batch_size);

  // Collective. `label` ("validate", "fit 2/5 validation") is for the bar and for errors.
  absl::StatusOr<MetricSums> Run(absl::string_view label);

 private:
  const StageContext context_;
  Module& module_;
  Dataset& data_;
  const int64_t batch_size_;
  DistributedSampler sampler_;
  BatchMemory memory_;
};

// The stages validate and test.
class EvaluationLoop final : public StageLoop {
 public:
  // `stage` is "validate" or "test". `batch_size` is at least 1, or says why there is none.
  EvaluationLoop(const StageContext& context, absl::string_view stage, Module& module,
                 Dataset& data, const absl::StatusOr<int64_t>& batch_size);

  // InvalidArgument: no sample, no batch size, facts that differ; FailedPrecondition: weights that
  // differ between ranks.
  absl::Status Prepare() override;
  absl::Status Run() override;

  // After Run.
  const MetricSums& result() const { return result_; }

 private:
  absl::Status ValidateHere() const;

  const StageContext context_;
  const std::string stage_;
  Module& module_;
  Dataset& data_;
  const absl::StatusOr<int64_t> batch_size_;
  std::optional<Evaluator> evaluator_;
  MetricSums result_;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_EVALUATION_H_

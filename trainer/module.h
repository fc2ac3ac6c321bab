// What the trainer knows of a model: named parameters, and one step on a batch.
//
// The trainer owns no tensors. A module exposes the memory of its parameters and of their
// gradients, and says during the backward pass when each gradient is complete, so that it travels
// while the rest is computed. trainer/examples/mlp.h shows that no framework is needed:
//
//   absl::Status TrainStep(const Batch& batch, GradientReady ready, MetricSums& metrics) override {
//     Forward(batch);               // adds loss, correct and count to `metrics` (metrics.h)
//     BackwardOutputLayer();  ready(kOutputWeight);  ready(kOutputBias);
//     BackwardHiddenLayer();  ready(kHiddenWeight);  ready(kHiddenBias);
//     return absl::OkStatus();
//   }
#ifndef MUSTER_TRAINER_MODULE_H_
#define MUSTER_TRAINER_MODULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/trainer/data.h"
#include "muster/trainer/metrics.h"

namespace muster {

// A view. The memory is the module's (the gradient's: see PlaceGradients) and stays where it is
// while the trainer runs.
struct Parameter {
  std::string name;  // unique in its module: "hidden.weight"
  Buffer data;
  Buffer gradient;             // same count, dtype and device as `data`
  std::vector<int64_t> shape;  // its product is data.count
};

// Says that the gradient of parameters()[index] is complete. Each parameter once a step, in
// whatever order backward gives them, on the thread that called TrainStep and before it returns; a
// module with threads of its own gathers there. The module leaves that gradient alone until its
// next step.
using GradientReady = absl::FunctionRef<void(int index)>;

// Calls come from one thread at a time. An error stops the stage: the group is aborted with it, so
// that the other ranks learn the cause. An exception passes through the trainer with the same
// effect, if somebody above catches it; if nobody does, the process ends in std::terminate, and the
// other ranks learn that it died (signal 6), not why.
class Module {
 public:
  virtual ~Module() = default;

  // All parameters that training changes: the same names, shapes and types in the same order on
  // every rank. The order is that of the forward pass: backward is expected to complete the last
  // one first.
  virtual absl::Span<const Parameter> parameters() const = 0;

  // Forward and backward on `batch`. Gradients are those of the *mean* loss of this batch, and
  // replace what was there. Adds this batch's sums to `metrics`.
  virtual absl::Status TrainStep(const Batch& batch, GradientReady ready, MetricSums& metrics) = 0;

  // Forward alone. Adds this batch's sums to `metrics` and changes no parameter.
  virtual absl::Status EvaluateStep(const Batch& batch, MetricSums& metrics) = 0;

  // Asks the module to write gradients into `memory` (one buffer for each parameter, in their
  // order, each aligned to 64 bytes) from now on: then they are reduced where they are, without a
  // copy. True when it will; `parameters()` shows it. Empty: back to the module's own memory, the
  // trainer's is about to vanish. The default keeps the module's own, and the trainer copies.
  virtual bool PlaceGradients(absl::Span<const Buffer> memory) noexcept {
    static_cast<void>(memory);
    return false;
  }
};

}  // namespace muster

#endif  // MUSTER_TRAINER_MODULE_H_

// Stochastic gradient descent with momentum, as PyTorch writes it:
//
//   g = gradient + weight_decay * w
//   b = momentum * b + g              (b = g in the first step)
//   w = w - learning_rate * b
#ifndef MUSTER_TRAINER_SGD_H_
#define MUSTER_TRAINER_SGD_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/trainer/aligned_memory.h"
#include "muster/trainer/module.h"

namespace muster {

struct SgdOptions {
  double learning_rate = 0.1;  // > 0
  double momentum = 0;         // in [0, 1)
  double weight_decay = 0;     // >= 0

  // InvalidArgument naming the field, its value and what is accepted.
  absl::Status Validate() const;
};

// Element by element, in the parameter's own type (f32 or f64): equal weights and gradients on two
// ranks give equal bits.
class Sgd {
 public:
  // `parameters` as parameter_agreement.h's ValidateParameters accepts them. Keeps views of their
  // data.
  Sgd(absl::Span<const Parameter> parameters, const SgdOptions& options);

  // For the steps to come.
  void set_learning_rate(double learning_rate) { options_.learning_rate = learning_rate; }

  // One step with gradients[i] for parameter i.
  void Step(absl::Span<const Buffer> gradients);

 private:
  SgdOptions options_;
  std::vector<Buffer> data_;
  std::vector<AlignedMemory> momentum_;  // empty without momentum
};

}  // namespace muster

#endif  // MUSTER_TRAINER_SGD_H_

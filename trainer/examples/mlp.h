// A classifier with one hidden layer, written by hand on Eigen: a Module needs no framework.
//
//   hidden = max(0, hidden.weight x + hidden.bias);  logits = output.weight hidden + output.bias;
//   loss = cross entropy of softmax(logits)
//
// All memory of a step is taken once, for the largest batch so far. Each gradient is announced as
// soon as it is complete, the output layer's first: they travel while the hidden layer's, which is
// most of the work, is computed.
#ifndef MUSTER_TRAINER_EXAMPLES_MLP_H_
#define MUSTER_TRAINER_EXAMPLES_MLP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "muster/trainer/aligned_memory.h"
#include "muster/trainer/data.h"
#include "muster/trainer/module.h"

namespace muster {

struct MlpShape {
  int64_t inputs = 784;
  int64_t hidden = 256;
  int64_t outputs = 10;
};

// T is float, or double (for checks). Batches have a field [inputs] of T and a label of i32 in [0,
// outputs): else InvalidArgument.
template <class T>
class Mlp final : public Module {
 public:
  // Weights uniform in +-1/sqrt(fan in), as torch.nn.Linear, from `seed` alone.
  Mlp(const MlpShape& shape, uint64_t seed);

  // Numbers of the parameters.
  enum { kHiddenWeight, kHiddenBias, kOutputWeight, kOutputBias, kParameters };

  absl::Span<const Parameter> parameters() const override { return parameters_; }
  absl::Status TrainStep(const Batch& batch, GradientReady ready, MetricSums& metrics) override;
  absl::Status EvaluateStep(const Batch& batch, MetricSums& metrics) override;
  bool PlaceGradients(absl::Span<const Buffer> memory) noexcept override;

 private:
  absl::Status CheckBatch(const Batch& batch) const;
  // Fills hidden_ and logits_; then makes errors_ of the logits (softmax minus the one-hot label,
  // over the batch size), adding to `metrics`.
  void Forward(const T* images, int64_t size);
  absl::Status Score(const int32_t* labels, int64_t size, MetricSums& metrics);
  void Reserve(int64_t size);

  const MlpShape shape_;
  std::vector<AlignedMemory> data_;           // of each parameter
  std::vector<AlignedMemory> own_gradients_;  // used while nobody places them elsewhere
  std::vector<Parameter> parameters_;

  // One column a sample.
  int64_t capacity_ = 0;
  std::vector<T> hidden_;
  std::vector<T> hidden_error_;
  std::vector<T> logits_;  // in place also their errors
};

extern template class Mlp<float>;
extern template class Mlp<double>;

}  // namespace muster

#endif  // MUSTER_TRAINER_EXAMPLES_MLP_H_

#include "muster/trainer/examples/mlp.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>

#include "Eigen/Core"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Activations hold one column a sample, which is how a batch lies in memory. Weights are [out, in]
// row by row, as everybody stores them.
template <class T>
using Columns = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>;
template <class T>
using ConstColumns = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>;
template <class T>
using Rows =
    Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, Eigen::Aligned64>;
template <class T>
using Vector = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>, Eigen::Aligned64>;

template <class T>
T* DataOf(const Buffer& buffer) {
  return static_cast<T*>(buffer.data);
}

}  // namespace

template <class T>
Mlp<T>::Mlp(const MlpShape& shape, uint64_t seed) : shape_(shape) {
  const auto add = [this](const std::string& name, std::vector<int64_t> extents) {
    int64_t count = 1;
    for (int64_t extent : extents) count *= extent;
    data_.emplace_back(count * sizeof(T));
    own_gradients_.emplace_back(count * sizeof(T));
    parameters_.push_back({name, Buffer{data_.back().data(), count, DataTypeOf<T>()},
                           Buffer{own_gradients_.back().data(), count, DataTypeOf<T>()},
                           std::move(extents)});
  };
  add("hidden.weight", {shape.hidden, shape.inputs});
  add("hidden.bias", {shape.hidden});
  add("output.weight", {shape.outputs, shape.hidden});
  add("output.bias", {shape.outputs});

  // The engine's numbers are fixed by the standard; those of its distributions are not.
  std::mt19937_64 engine(seed);
  for (int i = 0; i < kParameters; ++i) {
    const double fan_in =
        static_cast<double>(i == kHiddenWeight || i == kHiddenBias ? shape.inputs : shape.hidden);
    T* values = DataOf<T>(parameters_[i].data);
    for (int64_t e = 0; e < parameters_[i].data.count; ++e) {
      const double unit = static_cast<double>(engine() >> 11) * 0x1p-53;  // [0, 1)
      values[e] = static_cast<T>((2 * unit - 1) / std::sqrt(fan_in));
    }
  }
}

template <class T>
bool Mlp<T>::PlaceGradients(absl::Span<const Buffer> memory) noexcept {
  for (int i = 0; i < kParameters; ++i) {
    parameters_[i].gradient.data = memory.empty() ? own_gradients_[i].data() : memory[i].data;
  }
  return true;
}

template <class T>
absl::Status Mlp<T>::CheckBatch(const Batch& batch) const {
  if (batch.size < 1 || batch.fields.size() != 2 || batch.fields[0].dtype != DataTypeOf<T>() ||
      batch.fields[0].count != batch.size * shape_.inputs ||
      batch.fields[1].dtype != DataType::kI32 || batch.fields[1].count != batch.size) {
    std::string seen;
    for (const Buffer& field : batch.fields) absl::StrAppend(&seen, " ", field.ToString());
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", batch.size, " with the fields", seen, ": the model takes ",
                     Name(DataTypeOf<T>()), "[", shape_.inputs, "] and an i32 label for a sample"));
  }
  return absl::OkStatus();
}

template <class T>
void Mlp<T>::Reserve(int64_t size) {
  if (size <= capacity_) return;
  capacity_ = size;
  hidden_.resize(size * shape_.hidden);
  hidden_error_.resize(size * shape_.hidden);
  logits_.resize(size * shape_.outputs);
}

template <class T>
void Mlp<T>::Forward(const T* images, int64_t size) {
  const ConstColumns<T> x(images, shape_.inputs, size);
  const Rows<T> hidden_weight(DataOf<T>(parameters_[kHiddenWeight].data), shape_.hidden,
                              shape_.inputs);
  const Vector<T> hidden_bias(DataOf<T>(parameters_[kHiddenBias].data), shape_.hidden);
  const Rows<T> output_weight(DataOf<T>(parameters_[kOutputWeight].data), shape_.outputs,
                              shape_.hidden);
  const Vector<T> output_bias(DataOf<T>(parameters_[kOutputBias].data), shape_.outputs);
  Columns<T> hidden(hidden_.data(), shape_.hidden, size);
  Columns<T> logits(logits_.data(), shape_.outputs, size);

  hidden.noalias() = hidden_weight * x;
  hidden = (hidden.colwise() + hidden_bias).cwiseMax(T{0});
  logits.noalias() = output_weight * hidden;
  logits.colwise() += output_bias;
}

template <class T>
absl::Status Mlp<T>::Score(const int32_t* labels, int64_t size, MetricSums& metrics) {
  const int64_t outputs = shape_.outputs;
  for (int64_t s = 0; s < size; ++s) {
    if (labels[s] < 0 || labels[s] >= outputs) {
      return absl::InvalidArgumentError(absl::StrCat("label ", labels[s], " of sample ", s,
                                                     " of the batch is out of range [0, ", outputs,
                                                     ")"));
    }
    T* logits = logits_.data() + s * outputs;
    const T* largest = std::max_element(logits, logits + outputs);
    // Shifted by the largest, no exponential overflows and their sum is at least 1.
    const T shift = *largest;
    metrics.correct += largest - logits == labels[s] ? 1 : 0;
    const T label_logit = logits[labels[s]] - shift;
    T sum = 0;
    for (int64_t o = 0; o < outputs; ++o) {
      logits[o] = std::exp(logits[o] - shift);
      sum += logits[o];
    }
    metrics.loss += static_cast<double>(std::log(sum) - label_logit);
    const T scale = 1 / (sum * static_cast<T>(size));
    for (int64_t o = 0; o < outputs; ++o) logits[o] *= scale;
    logits[labels[s]] -= 1 / static_cast<T>(size);
  }
  metrics.count += static_cast<double>(size);
  return absl::OkStatus();
}

template <class T>
absl::Status Mlp<T>::EvaluateStep(const Batch& batch, MetricSums& metrics) {
  absl::Status status = CheckBatch(batch);
  if (!status.ok()) return status;
  Reserve(batch.size);
  Forward(DataOf<T>(batch.fields[0]), batch.size);
  return Score(DataOf<int32_t>(batch.fields[1]), batch.size, metrics);
}

template <class T>
absl::Status Mlp<T>::TrainStep(const Batch& batch, GradientReady ready, MetricSums& metrics) {
  absl::Status status = EvaluateStep(batch, metrics);
  if (!status.ok()) return status;

  const int64_t size = batch.size;
  const ConstColumns<T> x(DataOf<T>(batch.fields[0]), shape_.inputs, size);
  const ConstColumns<T> hidden(hidden_.data(), shape_.hidden, size);
  const ConstColumns<T> error(logits_.data(), shape_.outputs, size);
  Columns<T> hidden_error(hidden_error_.data(), shape_.hidden, size);
  const Rows<T> output_weight(DataOf<T>(parameters_[kOutputWeight].data), shape_.outputs,
                              shape_.hidden);

  Vector<T>(DataOf<T>(parameters_[kOutputBias].gradient), shape_.outputs) = error.rowwise().sum();
  ready(kOutputBias);
  Rows<T>(DataOf<T>(parameters_[kOutputWeight].gradient), shape_.outputs, shape_.hidden).noalias() =
      error * hidden.transpose();
  ready(kOutputWeight);

  hidden_error.noalias() = output_weight.transpose() * error;
  hidden_error.array() *= (hidden.array() > T{0}).template cast<T>();
  // The small one first: it shares its bucket with the output layer's, which then leaves before the
  // long product.
  Vector<T>(DataOf<T>(parameters_[kHiddenBias].gradient), shape_.hidden) =
      hidden_error.rowwise().sum();
  ready(kHiddenBias);
  Rows<T>(DataOf<T>(parameters_[kHiddenWeight].gradient), shape_.hidden, shape_.inputs).noalias() =
      hidden_error * x.transpose();
  ready(kHiddenWeight);
  return absl::OkStatus();
}

template class Mlp<float>;
template class Mlp<double>;

}  // namespace muster

#include "muster/trainer/sgd.h"

#include <cassert>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// `momentum` may be null: then b is g.
template <class T>
void Update(T* __restrict data, const T* __restrict gradient, T* __restrict momentum, int64_t count,
            const SgdOptions& options) {
  const T learning_rate = static_cast<T>(options.learning_rate);
  const T factor = static_cast<T>(options.momentum);
  const T decay = static_cast<T>(options.weight_decay);
  if (momentum == nullptr) {
    for (int64_t i = 0; i < count; ++i) {
      data[i] -= learning_rate * (gradient[i] + decay * data[i]);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    momentum[i] = factor * momentum[i] + (gradient[i] + decay * data[i]);
    data[i] -= learning_rate * momentum[i];
  }
}

template <class T>
void Update(const Buffer& data, const Buffer& gradient, std::byte* momentum,
            const SgdOptions& options) {
  Update(static_cast<T*>(data.data), static_cast<const T*>(gradient.data),
         reinterpret_cast<T*>(momentum), data.count, options);
}

}  // namespace

absl::Status SgdOptions::Validate() const {
  // The negations also refuse NaN.
  if (!(learning_rate > 0) || std::isinf(learning_rate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("learning_rate is ", learning_rate, ": give a finite number greater than 0"));
  }
  if (!(momentum >= 0 && momentum < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("momentum is ", momentum, ": give a number of at least 0 and less than 1"));
  }
  if (!(weight_decay >= 0) || std::isinf(weight_decay)) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight_decay is ", weight_decay, ": give a finite number of at least 0"));
  }
  return absl::OkStatus();
}

Sgd::Sgd(absl::Span<const Parameter> parameters, const SgdOptions& options) : options_(options) {
  for (const Parameter& parameter : parameters) {
    data_.push_back(parameter.data);
    // Zeros: 0 * momentum + g is the g of the first step.
    if (options_.momentum != 0) momentum_.emplace_back(parameter.data.bytes());
  }
}

void Sgd::Step(absl::Span<const Buffer> gradients) {
  assert(gradients.size() == data_.size());
  for (size_t i = 0; i < data_.size(); ++i) {
    std::byte* momentum = momentum_.empty() ? nullptr : momentum_[i].data();
    if (data_[i].dtype == DataType::kF32) {
      Update<float>(data_[i], gradients[i], momentum, options_);
    } else {
      assert(data_[i].dtype == DataType::kF64);
      Update<double>(data_[i], gradients[i], momentum, options_);
    }
  }
}

}  // namespace muster

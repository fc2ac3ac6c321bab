#include "muster/trainer/logistic_module.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace muster {

LogisticModule::LogisticModule(int64_t width, float start)
    : weight_(width, start), weight_gradient_(width) {
  parameters_ = {
      {"weight",
       Buffer::Of(absl::MakeSpan(weight_)),
       Buffer::Of(absl::MakeSpan(weight_gradient_)),
       {width}},
      {"bias", Buffer::Of(absl::MakeSpan(bias_)), Buffer::Of(absl::MakeSpan(bias_gradient_)), {1}}};
}

double LogisticModule::Error(const float* point, int32_t label, MetricSums& metrics) const {
  double logit = bias_[0];
  for (size_t c = 0; c < weight_.size(); ++c) logit += weight_[c] * point[c];
  const double probability = 1 / (1 + std::exp(-logit));
  metrics.loss -= std::log(std::max(label == 1 ? probability : 1 - probability, 1e-12));
  metrics.correct += (logit > 0) == (label == 1) ? 1 : 0;
  metrics.count += 1;
  return probability - label;
}

absl::Status LogisticModule::TrainStep(const Batch& batch, GradientReady ready,
                                       MetricSums& metrics) {
  const float* points = static_cast<const float*>(batch.fields[0].data);
  const int32_t* labels = static_cast<const int32_t*>(batch.fields[1].data);
  const size_t width = weight_.size();
  float* weight_gradient = static_cast<float*>(parameters_[0].gradient.data);
  float* bias_gradient = static_cast<float*>(parameters_[1].gradient.data);
  std::vector<double> errors(batch.size);
  double sum = 0;
  for (int64_t s = 0; s < batch.size; ++s) {
    errors[s] = Error(points + s * width, labels[s], metrics) / static_cast<double>(batch.size);
    sum += errors[s];
  }
  *bias_gradient = static_cast<float>(sum);
  ready(1);
  for (size_t c = 0; c < width; ++c) {
    double gradient = 0;
    for (int64_t s = 0; s < batch.size; ++s) gradient += errors[s] * points[s * width + c];
    weight_gradient[c] = static_cast<float>(gradient);
  }
  ready(0);
  return absl::OkStatus();
}

absl::Status LogisticModule::EvaluateStep(const Batch& batch, MetricSums& metrics) {
  const float* points = static_cast<const float*>(batch.fields[0].data);
  const int32_t* labels = static_cast<const int32_t*>(batch.fields[1].data);
  for (int64_t s = 0; s < batch.size; ++s) {
    Error(points + s * weight_.size(), labels[s], metrics);
  }
  return absl::OkStatus();
}

bool LogisticModule::PlaceGradients(absl::Span<const Buffer> memory) noexcept {
  parameters_[0].gradient =
      memory.empty() ? Buffer::Of(absl::MakeSpan(weight_gradient_)) : memory[0];
  parameters_[1].gradient = memory.empty() ? Buffer::Of(absl::MakeSpan(bias_gradient_)) : memory[1];
  return true;
}

}  // namespace muster

// The smallest module that trains: logistic regression in plain loops, with a data set of its own,
// for the trainer's tests.
#ifndef MUSTER_TRAINER_LOGISTIC_MODULE_H_
#define MUSTER_TRAINER_LOGISTIC_MODULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "muster/trainer/data.h"
#include "muster/trainer/module.h"

namespace muster {

// `size` points of `width` coordinates, made from their numbers; the label says on which side of a
// plane they lie.
class PlaneData : public Dataset {
 public:
  PlaneData(int64_t size, int64_t width) : size_(size), width_(width) {}

  int64_t size() const override { return size_; }
  std::vector<Field> fields() const override {
    return {{"point", DataType::kF32, {width_}}, {"label", DataType::kI32, {}}};
  }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) override {
    float* points = static_cast<float*>(batch.fields[0].data);
    int32_t* labels = static_cast<int32_t*>(batch.fields[1].data);
    for (size_t s = 0; s < indices.size(); ++s) {
      float sum = 0;
      for (int64_t c = 0; c < width_; ++c) {
        const float value = Coordinate(indices[s], c);
        points[s * width_ + c] = value;
        sum += value * (c % 2 == 0 ? 1 : -1);
      }
      labels[s] = sum > 0 ? 1 : 0;
    }
    return absl::OkStatus();
  }

 private:
  // In [-1, 1), without a pattern that matters.
  static float Coordinate(int64_t sample, int64_t coordinate) {
    const uint64_t mixed =
        (static_cast<uint64_t>(sample) * 1000003 + coordinate) * 0x9e3779b97f4a7c15;
    return static_cast<float>(mixed >> 40) / static_cast<float>(1 << 23) - 1;
  }

  const int64_t size_;
  const int64_t width_;
};

// Parameters "weight" [width] and "bias" [1], in f32; the bias's gradient is complete first.
class LogisticModule : public Module {
 public:
  // `start` is the first value of each weight: ranks may begin with different ones.
  explicit LogisticModule(int64_t width, float start = 0);

  absl::Span<const Parameter> parameters() const override { return parameters_; }
  absl::Status TrainStep(const Batch& batch, GradientReady ready, MetricSums& metrics) override;
  absl::Status EvaluateStep(const Batch& batch, MetricSums& metrics) override;
  bool PlaceGradients(absl::Span<const Buffer> memory) noexcept override;

  const std::vector<float>& weight() const { return weight_; }
  float bias() const { return bias_[0]; }
  std::vector<float>& mutable_weight() { return weight_; }

 private:
  // The probability of label 1 minus the label; adds to `metrics`.
  double Error(const float* point, int32_t label, MetricSums& metrics) const;

  std::vector<float> weight_;
  std::vector<float> bias_ = {0};
  std::vector<float> weight_gradient_;
  std::vector<float> bias_gradient_ = {0};
  std::vector<Parameter> parameters_;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_LOGISTIC_MODULE_H_

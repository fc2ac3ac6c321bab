// docs/start.md: the first trainer. Fits a straight line.
#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/log/initialize.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "muster/trainer/trainer.h"

// y = 3 x + 1 for 1000 values of x in [-1, 1).
class LineData : public muster::Dataset {
 public:
  int64_t size() const override { return 1000; }
  std::vector<muster::Field> fields() const override {
    return {{"x", muster::DataType::kF32, {}}, {"y", muster::DataType::kF32, {}}};
  }
  absl::Status Read(absl::Span<const int64_t> indices, muster::Batch& batch) override {
    float* x = static_cast<float*>(batch.fields[0].data);
    float* y = static_cast<float*>(batch.fields[1].data);
    for (size_t i = 0; i < indices.size(); ++i) {
      x[i] = static_cast<float>(indices[i]) / 500 - 1;
      y[i] = 3 * x[i] + 1;
    }
    return absl::OkStatus();
  }
};

// prediction = slope * x + offset, with the mean square of the error as its loss.
class Line : public muster::Module {
 public:
  absl::Span<const muster::Parameter> parameters() const override { return parameters_; }

  absl::Status TrainStep(const muster::Batch& batch, muster::GradientReady ready,
                         muster::MetricSums& metrics) override {
    slope_gradient_ = offset_gradient_ = 0;
    const float size = static_cast<float>(batch.size);
    for (int64_t i = 0; i < batch.size; ++i) {
      const float error = Error(batch, i, metrics);
      slope_gradient_ += 2 * error * X(batch, i) / size;
      offset_gradient_ += 2 * error / size;
    }
    ready(0);  // from here on its average over the ranks may travel
    ready(1);
    return absl::OkStatus();
  }

  absl::Status EvaluateStep(const muster::Batch& batch, muster::MetricSums& metrics) override {
    for (int64_t i = 0; i < batch.size; ++i) Error(batch, i, metrics);
    return absl::OkStatus();
  }

  float slope() const { return slope_; }
  float offset() const { return offset_; }

 private:
  static float X(const muster::Batch& batch, int64_t i) {
    return static_cast<const float*>(batch.fields[0].data)[i];
  }
  float Error(const muster::Batch& batch, int64_t i, muster::MetricSums& metrics) const {
    const float error =
        slope_ * X(batch, i) + offset_ - static_cast<const float*>(batch.fields[1].data)[i];
    metrics.loss += error * error;
    metrics.count += 1;
    metrics.unrated += 1;  // a regression has no accuracy
    return error;
  }

  float slope_ = 0, offset_ = 0;
  float slope_gradient_ = 0, offset_gradient_ = 0;
  const std::vector<muster::Parameter> parameters_ = {
      {"slope", muster::Buffer::Of(slope_), muster::Buffer::Of(slope_gradient_), {}},
      {"offset", muster::Buffer::Of(offset_), muster::Buffer::Of(offset_gradient_), {}},
  };
};

int main() {
  absl::InitializeLog();
  LineData data;
  muster::Subset train(data, 0, 900);
  muster::Subset validation(data, 900, 100);
  Line line;

  muster::TrainerOptions options;
  options.max_epochs = 3;
  options.batch_size = 10;  // of each rank
  options.sgd.learning_rate = 0.1;
  // Without this line rank 0 tells the log how it goes, and abseil's log does not show that.
  options.progress = muster::ProgressOutput::OfStandardOutput(muster::Environment::OfProcess());

  muster::Trainer trainer(std::move(options));  // owns its pool: the group dies with the trainer
  absl::Status status = trainer.Fit(line, train);
  if (status.ok()) status = trainer.Validate(line, validation);  // the same group
  if (status.ok()) status = trainer.Close();                     // or let the destructor do it
  if (!status.ok()) {
    std::cerr << "first_trainer: " << status << "\n";
    return 1;
  }
  std::cout << absl::StreamFormat("y = %.2f x + %.2f, %d group\n", line.slope(), line.offset(),
                                  trainer.group_statistics().groups_created);
  return 0;
}

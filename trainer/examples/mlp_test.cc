#include "muster/trainer/examples/mlp.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/data.h"
#include "muster/trainer/module.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr MlpShape kShape = {/*inputs=*/7, /*hidden=*/5, /*outputs=*/4};

void Ignore(int) {}

// A batch of `size` samples with values that have no pattern.
template <class T>
class Samples {
 public:
  explicit Samples(int64_t size)
      : memory_({{"x", DataTypeOf<T>(), {kShape.inputs}}, {"label", DataType::kI32, {}}}, size) {
    Batch& batch = memory_.Resize(size);
    for (int64_t i = 0; i < size * kShape.inputs; ++i) {
      static_cast<T*>(batch.fields[0].data)[i] = static_cast<T>(std::sin(12.9898 * (i + 1)) * 1.5);
    }
    for (int64_t s = 0; s < size; ++s) {
      static_cast<int32_t*>(batch.fields[1].data)[s] = static_cast<int32_t>((3 * s + 1) % 4);
    }
  }
  Batch& Take(int64_t size) { return memory_.Resize(size); }

 private:
  BatchMemory memory_;
};

double MeanLoss(Module& module, const Batch& batch) {
  MetricSums sums;
  EXPECT_TRUE(module.EvaluateStep(batch, sums).ok());
  EXPECT_EQ(sums.count, batch.size);
  return sums.mean_loss();
}

TEST(MlpTest, EveryGradientIsThatOfFiniteDifferences) {
  constexpr int64_t kSize = 6;
  constexpr double kStep = 1e-6;
  Samples<double> samples(kSize);
  const Batch& batch = samples.Take(kSize);
  Mlp<double> mlp(kShape, 11);
  MetricSums sums;
  ASSERT_TRUE(mlp.TrainStep(batch, Ignore, sums).ok());
  for (const Parameter& parameter : mlp.parameters()) {
    double* values = static_cast<double*>(parameter.data.data);
    const double* gradient = static_cast<const double*>(parameter.gradient.data);
    double largest = 0;
    for (int64_t i = 0; i < parameter.data.count; ++i) {
      const double value = values[i];
      values[i] = value + kStep;
      const double above = MeanLoss(mlp, batch);
      values[i] = value - kStep;
      const double below = MeanLoss(mlp, batch);
      values[i] = value;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-8)
          << parameter.name << " element " << i;
      largest = std::max(largest, std::abs(gradient[i]));
    }
    EXPECT_GT(largest, 1e-3) << parameter.name << ": a check of zeros checks nothing";
  }
}

TEST(MlpTest, FloatFollowsDouble) {
  constexpr int64_t kSize = 6;
  Samples<float> floats(kSize);
  Samples<double> doubles(kSize);
  Mlp<float> f(kShape, 11);
  Mlp<double> d(kShape, 11);
  MetricSums sums;
  ASSERT_TRUE(f.TrainStep(floats.Take(kSize), Ignore, sums).ok());
  ASSERT_TRUE(d.TrainStep(doubles.Take(kSize), Ignore, sums).ok());
  for (int p = 0; p < 4; ++p) {
    for (int64_t i = 0; i < f.parameters()[p].data.count; ++i) {
      EXPECT_NEAR(static_cast<const float*>(f.parameters()[p].gradient.data)[i],
                  static_cast<const double*>(d.parameters()[p].gradient.data)[i], 1e-5);
    }
  }
}

TEST(MlpTest, GradientsAreAnnouncedOnceTheOutputLayersFirst) {
  Samples<float> samples(3);
  Mlp<float> mlp(kShape, 1);
  std::vector<int> order;
  MetricSums sums;
  ASSERT_TRUE(mlp.TrainStep(samples.Take(3), [&](int i) { order.push_back(i); }, sums).ok());
  EXPECT_THAT(order, ElementsAre(Mlp<float>::kOutputBias, Mlp<float>::kOutputWeight,
                                 Mlp<float>::kHiddenBias, Mlp<float>::kHiddenWeight));
}

TEST(MlpTest, AnAnnouncedGradientDoesNotChangeAnyMore) {
  Samples<float> samples(3);
  Mlp<float> mlp(kShape, 1);
  std::vector<std::vector<float>> announced(4);
  MetricSums sums;
  const auto copy = [&](int i) {
    const Buffer& gradient = mlp.parameters()[i].gradient;
    const float* values = static_cast<const float*>(gradient.data);
    return std::vector<float>(values, values + gradient.count);
  };
  ASSERT_TRUE(mlp.TrainStep(samples.Take(3), [&](int i) { announced[i] = copy(i); }, sums).ok());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(announced[i], copy(i));
}

TEST(MlpTest, PlacedGradientsAreWrittenThereAndBackHomeAfterwards) {
  Samples<float> samples(3);
  Mlp<float> mlp(kShape, 1);
  std::vector<AlignedMemory> memory;
  std::vector<Buffer> places;
  for (const Parameter& parameter : mlp.parameters()) {
    memory.emplace_back(parameter.data.bytes());
    places.push_back(parameter.gradient);
    places.back().data = memory.back().data();
  }
  MetricSums sums;
  ASSERT_TRUE(mlp.TrainStep(samples.Take(3), Ignore, sums).ok());
  const float* const own = static_cast<const float*>(mlp.parameters()[1].gradient.data);
  const std::vector<float> home(own, own + 5);
  ASSERT_TRUE(mlp.PlaceGradients(places));
  ASSERT_TRUE(mlp.TrainStep(samples.Take(3), Ignore, sums).ok());
  EXPECT_EQ(mlp.parameters()[1].gradient.data, memory[1].data());
  const float* const placed = reinterpret_cast<const float*>(memory[1].data());
  EXPECT_EQ(std::vector<float>(placed, placed + 5), home);
  mlp.PlaceGradients({});
  EXPECT_NE(mlp.parameters()[1].gradient.data, memory[1].data());
}

TEST(MlpTest, OneSeedOneModel) {
  Mlp<float> a(kShape, 5);
  Mlp<float> b(kShape, 5);
  Mlp<float> c(kShape, 6);
  const auto weights = [](const Mlp<float>& mlp) {
    const float* values = static_cast<const float*>(mlp.parameters()[0].data.data);
    return std::vector<float>(values, values + mlp.parameters()[0].data.count);
  };
  EXPECT_EQ(weights(a), weights(b));
  EXPECT_NE(weights(a), weights(c));
  for (float w : weights(a)) EXPECT_LE(std::abs(w), 1 / std::sqrt(7.0f));
}

TEST(MlpTest, ASmallerBatchAfterALargerOneIsTheSameAsAlone) {
  Samples<double> samples(6);
  Mlp<double> mlp(kShape, 2);
  const double alone = MeanLoss(mlp, samples.Take(2));
  MeanLoss(mlp, samples.Take(6));
  EXPECT_EQ(MeanLoss(mlp, samples.Take(2)), alone);
}

TEST(MlpTest, HugeLogitsAreNoInfinity) {
  Samples<float> samples(2);
  Mlp<float> mlp(kShape, 2);
  static_cast<float*>(mlp.parameters()[Mlp<float>::kOutputBias].data.data)[0] = 1e30f;
  EXPECT_TRUE(std::isfinite(MeanLoss(mlp, samples.Take(2))));
}

TEST(MlpTest, AWrongLabelOrBatchIsNamed) {
  Samples<float> samples(3);
  Mlp<float> mlp(kShape, 2);
  Batch& batch = samples.Take(3);
  MetricSums sums;
  static_cast<int32_t*>(batch.fields[1].data)[1] = 4;
  EXPECT_THAT(mlp.EvaluateStep(batch, sums).message(),
              HasSubstr("label 4 of sample 1 of the batch is out of range [0, 4)"));
  batch.fields[0].count = 20;
  EXPECT_THAT(mlp.EvaluateStep(batch, sums).message(), HasSubstr("the model takes f32[7]"));
  batch.fields.pop_back();
  EXPECT_THAT(mlp.EvaluateStep(batch, sums).message(), HasSubstr("a batch of 3 with the fields"));
}

}  // namespace
}  // namespace muster

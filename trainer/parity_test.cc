// The number of ranks changes who computes what, and not what is learnt: 1 rank
// with batches of B samples and N ranks with batches of B / N end with the same
// weights, up to the order in which floats are added.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/trainer/data.h"
#include "muster/trainer/examples/mlp.h"
#include "muster/trainer/in_process_job.h"
#include "muster/trainer/trainer.h"

namespace muster {
namespace {

// Narrower than the example, for the sanitizers' sake. The hidden layer's weights are still larger
// than a bucket.
constexpr MlpShape kShape = {/*inputs=*/784, /*hidden=*/64, /*outputs=*/10};
constexpr int64_t kGlobalBatch = 32;
constexpr int64_t kSteps = 200;

// Images that can be learnt: a class's own pattern and noise, made from the
// sample's number.
class Patterns : public Dataset {
 public:
  int64_t size() const override { return 50 * kGlobalBatch; }
  std::vector<Field> fields() const override {
    return {{"image", DataType::kF32, {kShape.inputs}}, {"label", DataType::kI32, {}}};
  }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) override {
    float* image = static_cast<float*>(batch.fields[0].data);
    int32_t* label = static_cast<int32_t*>(batch.fields[1].data);
    for (int64_t index : indices) {
      *label = static_cast<int32_t>(index % kShape.outputs);
      for (int64_t p = 0; p < kShape.inputs; ++p) {
        *image++ = 0.5f * Noise(*label + 1, p) + Noise(1000 + index, p);
      }
      ++label;
    }
    return absl::OkStatus();
  }

 private:
  // In [-1, 1).
  static float Noise(int64_t stream, int64_t position) {
    uint64_t mixed = static_cast<uint64_t>(stream) * 0x9e3779b97f4a7c15 + position;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return static_cast<float>(mixed >> 40) / static_cast<float>(1 << 23) - 1;
  }
};

using Weights = std::vector<std::vector<float>>;  // of each parameter

Weights WeightsOf(const Module& module) {
  Weights weights;
  for (const Parameter& parameter : module.parameters()) {
    const float* values = static_cast<const float*>(parameter.data.data);
    weights.emplace_back(values, values + parameter.data.count);
  }
  return weights;
}

// The weights of each of `size` ranks after kSteps steps.
std::vector<Weights> Train(const std::string& backend, int size) {
  std::vector<Weights> results(size);
  const auto statuses = RunJobInProcess(size, [&](int rank, GroupPool& pool) {
    Patterns data;
    // Another start on each rank: rank 0's counts.
    Mlp<float> module(kShape, 100 + rank);
    TrainerOptions options;
    options.max_epochs = kSteps / (data.size() / kGlobalBatch);
    options.global_batch_size = kGlobalBatch;
    options.sgd = {/*learning_rate=*/0.02, /*momentum=*/0.9};
    options.seed = 5;
    options.buckets.bucket_bytes = int64_t{64} << 10;
    options.group.backend = backend;
    options.group.setup_timeout = absl::Seconds(10) * TimeoutScale();
    options.group.operation_timeout = absl::Seconds(30) * TimeoutScale();
    Trainer trainer(options, pool);
    absl::Status status = trainer.Fit(module, data);
    if (!status.ok()) return status;
    results[rank] = WeightsOf(module);
    EXPECT_GT(trainer.epochs().back().training.accuracy(), 0.9) << "parity of what does not learn";
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  return results;
}

class ParityTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(ParityTest, RanksLearnWhatOneRankLearnsAndAllTheSameBits) {
  const auto [backend, size] = GetParam();
  static const Weights alone = Train("reference", 1)[0];
  const std::vector<Weights> ranks = Train(backend, size);
  ASSERT_EQ(ranks[0].size(), alone.size());
  for (int rank = 1; rank < size; ++rank) {
    for (size_t p = 0; p < alone.size(); ++p) {
      ASSERT_EQ(ranks[rank][p].size(), ranks[0][p].size());
      EXPECT_EQ(std::memcmp(ranks[rank][p].data(), ranks[0][p].data(),
                            ranks[0][p].size() * sizeof(float)),
                0)
          << "parameter " << p << " of rank " << rank << " has other bits than rank 0's";
    }
  }
  for (size_t p = 0; p < alone.size(); ++p) {
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < alone[p].size(); ++i) {
      difference += std::pow(double{alone[p][i]} - double{ranks[0][p][i]}, 2);
      norm += std::pow(double{alone[p][i]}, 2);
    }
    EXPECT_LT(std::sqrt(difference / norm), 1e-5) << "parameter " << p;
    std::printf("%s, %d ranks, parameter %zu: ||difference|| / ||w|| = %.2g\n", backend.c_str(),
                size, p, std::sqrt(difference / norm));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ParityTest,
                         ::testing::Combine(::testing::Values("reference", "gloo"),
                                            ::testing::Values(2, 4)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               std::get<1>(info.param), "ranks");
                         });

}  // namespace
}  // namespace muster

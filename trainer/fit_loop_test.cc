#include "muster/trainer/fit_loop.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/in_process_collectives.h"
#include "muster/trainer/logistic_module.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kWidth = 5;

absl::Status Ignore(const EpochResult&) { return absl::OkStatus(); }

// Prepare and Run of one rank.
absl::Status Fit(Collectives& ranks, Module& module, Dataset& train, Dataset* validation,
                 const FitOptions& options, FitLoop::EpochCallback on_epoch = Ignore,
                 std::vector<EpochResult>* results = nullptr) {
  Progress progress(nullptr, absl::Now);
  FitLoop loop({ranks, progress, absl::Now}, module, train, validation, options, on_epoch);
  absl::Status status = loop.Prepare();
  if (status.ok()) status = loop.Run();
  if (results != nullptr) *results = loop.results();
  return status;
}

FitOptions Options() {
  FitOptions options;
  options.max_epochs = 3;
  options.batch_size = 8;
  options.sgd = {/*learning_rate=*/0.5, /*momentum=*/0.9};
  options.seed = 3;
  return options;
}

TEST(FitLoopTest, LearnsOnOneRankAndOnSeveral) {
  for (int size : {1, 2, 3}) {
    for (const absl::Status& status : RunRanks(size, [](Collectives& ranks) {
           PlaneData train(200, kWidth);
           PlaneData validation(50, kWidth);
           LogisticModule module(kWidth);
           std::vector<EpochResult> results;
           absl::Status status =
               Fit(ranks, module, train, &validation, Options(), Ignore, &results);
           if (!status.ok()) return status;
           EXPECT_EQ(results.size(), 3u);
           EXPECT_LT(results[2].training.mean_loss(), results[0].training.mean_loss());
           EXPECT_GT(results[2].validation->accuracy(), 0.9);
           EXPECT_EQ(results[2].validation->count, 50);
           EXPECT_EQ(results[0].epoch, 1);
           return absl::OkStatus();
         })) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(FitLoopTest, TheNumberOfRanksDoesNotChangeWhatIsLearnt) {
  FitOptions options = Options();
  options.global_batch_size = 24;
  PlaneData train(240, kWidth);
  LogisticModule alone(kWidth);
  InProcessWorld one(1);
  ASSERT_TRUE(Fit(one.rank(0), alone, train, nullptr, options).ok());
  for (int size : {2, 3, 4}) {
    for (const absl::Status& status : RunRanks(size, [&](Collectives& ranks) {
           PlaneData mine(240, kWidth);
           LogisticModule module(kWidth);
           absl::Status status = Fit(ranks, module, mine, nullptr, options);
           for (int64_t c = 0; c < kWidth; ++c) {
             EXPECT_NEAR(module.weight()[c], alone.weight()[c], 1e-5 * std::abs(alone.weight()[c]));
           }
           return status;
         })) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(FitLoopTest, RanksStartFromTheWeightsOfRankZero) {
  for (const absl::Status& status : RunRanks(3, [](Collectives& ranks) {
         PlaneData train(24, kWidth);
         LogisticModule module(kWidth, static_cast<float>(ranks.rank() + 1));
         Progress progress(nullptr, absl::Now);
         FitLoop loop({ranks, progress, absl::Now}, module, train, nullptr, Options(), Ignore);
         absl::Status status = loop.Prepare();
         for (float w : module.weight()) EXPECT_EQ(w, 1);
         return status;
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(FitLoopTest, TheModuleHasItsOwnGradientMemoryAgainAfterwards) {
  PlaneData train(16, kWidth);
  LogisticModule module(kWidth);
  const void* own = module.parameters()[0].gradient.data;
  InProcessWorld one(1);
  ASSERT_TRUE(Fit(one.rank(0), module, train, nullptr, Options(), [&](const EpochResult&) {
                EXPECT_NE(module.parameters()[0].gradient.data, own);
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(module.parameters()[0].gradient.data, own);
}

// As LogisticModule, but its gradients stay where they are.
class StubbornModule : public LogisticModule {
 public:
  using LogisticModule::LogisticModule;
  bool PlaceGradients(absl::Span<const Buffer>) noexcept override { return false; }
};

TEST(FitLoopTest, AModuleThatKeepsItsGradientsLearnsTheSame) {
  PlaneData train(64, kWidth);
  LogisticModule placed(kWidth);
  StubbornModule kept(kWidth);
  InProcessWorld one(1);
  InProcessWorld two(1);
  ASSERT_TRUE(Fit(one.rank(0), placed, train, nullptr, Options()).ok());
  ASSERT_TRUE(Fit(two.rank(0), kept, train, nullptr, Options()).ok());
  EXPECT_EQ(placed.weight(), kept.weight());
}

// Options, data or model that cannot be: what Prepare says, the same on all of two ranks, of which
// rank 1 is the odd one.
absl::Status PrepareWith(const std::function<void(FitOptions&)>& change, int64_t train_size = 32,
                         int64_t validation_size = 8, int64_t width = kWidth) {
  const auto statuses = RunRanks(2, [&](Collectives& ranks) {
    const bool odd = ranks.rank() == 1;
    PlaneData train(odd ? train_size : 32, odd ? width : kWidth);
    PlaneData validation(odd ? validation_size : 8, kWidth);
    LogisticModule module(odd ? width : kWidth);
    FitOptions options = Options();
    if (odd) change(options);
    Progress progress(nullptr, absl::Now);
    FitLoop loop({ranks, progress, absl::Now}, module, train, &validation, options, Ignore);
    absl::Status status = loop.Prepare();
    double one = 1;
    EXPECT_TRUE(ranks.AllReduce(Buffer::Of(one), ReduceOp::kSum).ok()) << "the group stays usable";
    return status;
  });
  EXPECT_EQ(statuses[0], statuses[1]);
  return statuses[0];
}

const auto kNoChange = [](FitOptions&) {};

// PL#9851: unequal batch counts hang.
TEST(FitLoopTest, UnequalDataSetsAreFoundBeforeTheFirstStepAndNamed) {
  EXPECT_THAT(PrepareWith(kNoChange, 40).message(),
              HasSubstr("rank 1 has training samples 40 and rank 0 has 32"));
  EXPECT_THAT(PrepareWith(kNoChange, 32, 9).message(),
              HasSubstr("rank 1 has validation samples 9 and rank 0 has 8"));
}

TEST(FitLoopTest, UnequalOptionsAndModelsAreFoundAndNamed) {
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.batch_size = 4; }).message(),
              HasSubstr("rank 1 has batch_size 4 and rank 0 has 8"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.global_batch_size = 8; }).message(),
              HasSubstr("rank 1 has global_batch_size 8 and rank 0 has 0"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.seed = 4; }).message(), HasSubstr("seed 4"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.sgd.learning_rate = 2; }).message(),
              HasSubstr("learning_rate 2 and rank 0 has 0.5"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.max_epochs = 5; }).message(),
              HasSubstr("max_epochs 5"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.remainder = Remainder::kDrop; }).message(),
              HasSubstr("remainder drop and rank 0 has pad"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.buckets.bucket_bytes = 4; }).message(),
              HasSubstr("bucket_bytes 4"));
  EXPECT_THAT(PrepareWith(kNoChange, 32, 8, kWidth + 1).message(),
              HasSubstr("parameter 0 is weight f32[6] on rank 1 and weight f32[5] on rank 0"));
}

TEST(FitLoopTest, WhatCannotBeOnOneRankIsEveryRanksError) {
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.max_epochs = 0; }).message(),
              HasSubstr("rank 1: fit: max_epochs is 0: give at least 1"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.batch_size = 0; }).message(),
              HasSubstr("batch_size is 0"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.global_batch_size = 7; }).message(),
              HasSubstr("global_batch_size is 7: give a multiple of the 2 ranks"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.global_batch_size = -2; }).message(),
              HasSubstr("global_batch_size is -2: give a multiple"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.sgd.momentum = 1; }).message(),
              HasSubstr("momentum is 1"));
  EXPECT_THAT(PrepareWith([](FitOptions& o) { o.remainder = Remainder::kExact; }).message(),
              HasSubstr("remainder is exact"));
  EXPECT_THAT(PrepareWith(kNoChange, 0).message(),
              HasSubstr("rank 1: fit: training data: the data set is empty"));
  EXPECT_THAT(PrepareWith(kNoChange, 32, 0).message(), HasSubstr("validation data"));
}

TEST(FitLoopTest, FewerSamplesThanRanksStillTrain) {
  for (const absl::Status& status : RunRanks(4, [](Collectives& ranks) {
         PlaneData train(2, kWidth);
         LogisticModule module(kWidth);
         std::vector<EpochResult> results;
         absl::Status status = Fit(ranks, module, train, nullptr, Options(), Ignore, &results);
         EXPECT_EQ(results.size(), 3u);
         return status;
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

// Fails at its `when`-th batch.
class FailingData : public PlaneData {
 public:
  FailingData(int64_t size, int when) : PlaneData(size, kWidth), left_(when) {}
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) override {
    if (--left_ == 0) return absl::DataLossError("label 17 out of range [0, 10)");
    return PlaneData::Read(indices, batch);
  }

 private:
  int left_;
};

TEST(FitLoopTest, AnErrorOfTheDataSetNamesEpochAndBatchAndEndsTheOtherRanks) {
  const auto statuses = RunRanks(2, [](Collectives& ranks) {
    FailingData train(32, ranks.rank() == 1 ? 4 : -1);  // 2 batches an epoch
    LogisticModule module(kWidth);
    return Fit(ranks, module, train, nullptr, Options());
  });
  EXPECT_EQ(statuses[1], absl::DataLossError("fit 2/3, batch 2: label 17 out of range [0, 10)"));
  EXPECT_THAT(statuses[0].message(), HasSubstr("rank 1 left: fit 2/3, batch 2: label 17"));
}

class ThrowingModule : public LogisticModule {
 public:
  using LogisticModule::LogisticModule;
  absl::Status TrainStep(const Batch&, GradientReady ready, MetricSums&) override {
    ready(1);
    throw std::runtime_error("a user's own");
  }
};

TEST(FitLoopTest, AnExceptionOfTheModulePassesThroughAndLeavesItsMemoryInOrder) {
  PlaneData train(16, kWidth);
  ThrowingModule module(kWidth);
  const void* own = module.parameters()[0].gradient.data;
  InProcessWorld one(1);
  EXPECT_THROW(Fit(one.rank(0), module, train, nullptr, Options()).IgnoreError(),
               std::runtime_error);
  EXPECT_EQ(module.parameters()[0].gradient.data, own);
}

TEST(FitLoopTest, WeightsThatDriftApartAreFound) {
  const auto statuses = RunRanks(2, [](Collectives& ranks) {
    PlaneData train(16, kWidth);
    LogisticModule module(kWidth);
    return Fit(ranks, module, train, nullptr, Options(), [&](const EpochResult& result) {
      if (ranks.rank() == 1 && result.epoch == 3) module.mutable_weight()[0] += 1;
      return absl::OkStatus();
    });
  });
  EXPECT_THAT(statuses[0].message(),
              HasSubstr("after the last step: parameter weight of rank 1 differs"));
}

// A gradient of 1 at every step: the weight is what the rates add up to.
class Slope : public LogisticModule {
 public:
  using LogisticModule::LogisticModule;
  absl::Status TrainStep(const Batch&, GradientReady ready, MetricSums&) override {
    for (const Parameter& parameter : parameters()) {
      float* gradient = static_cast<float*>(parameter.gradient.data);
      for (int64_t i = 0; i < parameter.gradient.count; ++i) gradient[i] = 1;
    }
    ready(1);
    ready(0);
    return absl::OkStatus();
  }
};

TEST(FitLoopTest, ABatchSizeBeyondTheDataIsOneStepAnEpoch) {
  PlaneData train(16, kWidth);
  FitOptions options = Options();
  options.max_epochs = 2;
  options.batch_size = std::numeric_limits<int64_t>::max();
  options.sgd = {/*learning_rate=*/1};
  Slope module(kWidth);
  InProcessWorld one(1);
  ASSERT_TRUE(Fit(one.rank(0), module, train, &train, options).ok());
  EXPECT_FLOAT_EQ(module.bias(), -2);
}

// Until a callback says that it is enough.
TEST(FitLoopTest, ALinearScheduleOverEpochsWithoutEndKeepsItsRate) {
  PlaneData train(16, kWidth);
  FitOptions options = Options();  // 2 batches an epoch
  options.max_epochs = std::numeric_limits<int64_t>::max();
  options.sgd = {/*learning_rate=*/1};
  options.schedule = LearningRateSchedule::kLinear;
  Slope module(kWidth);
  InProcessWorld one(1);
  const absl::Status status =
      Fit(one.rank(0), module, train, nullptr, options,
          [](const EpochResult&) { return absl::CancelledError("enough"); });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_FLOAT_EQ(module.bias(), -2);
}

TEST(FitLoopTest, ALinearScheduleEndsNearZeroAndStartsAtTheRateGiven) {
  PlaneData train(16, kWidth);
  FitOptions options = Options();
  options.max_epochs = 2;  // 4 steps
  options.sgd = {/*learning_rate=*/1};
  options.schedule = LearningRateSchedule::kLinear;
  Slope module(kWidth);
  InProcessWorld one(1);
  ASSERT_TRUE(Fit(one.rank(0), module, train, nullptr, options).ok());
  EXPECT_FLOAT_EQ(module.bias(), -(1 + 0.75f + 0.5f + 0.25f));
}

TEST(FitLoopTest, TheEpochCallbackCanEndTheStage) {
  PlaneData train(16, kWidth);
  LogisticModule module(kWidth);
  InProcessWorld one(1);
  std::vector<EpochResult> results;
  const absl::Status status = Fit(
      one.rank(0), module, train, nullptr, Options(),
      [](const EpochResult&) { return absl::CancelledError("enough"); }, &results);
  EXPECT_EQ(status, absl::CancelledError("fit 1/3: enough"));
  EXPECT_EQ(results.size(), 1u);
}

TEST(FitLoopTest, TheEpochCallbackOfOneRankEndsTheStageOfAllTogether) {
  const auto statuses = RunRanks(3, [](Collectives& ranks) {
    PlaneData train(24, kWidth);
    LogisticModule module(kWidth);
    const absl::Status status =
        Fit(ranks, module, train, nullptr, Options(), [&ranks](const EpochResult& result) {
          const bool stops = ranks.rank() == 1 && result.epoch == 2;
          return stops ? absl::CancelledError("enough") : absl::OkStatus();
        });
    EXPECT_EQ(status, absl::CancelledError("rank 1: fit 2/3: enough"));
    double one = 1;
    return ranks.AllReduce(Buffer::Of(one), ReduceOp::kSum);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(status.ok()) << "the group stays usable: " << status;
  }
}

}  // namespace
}  // namespace muster

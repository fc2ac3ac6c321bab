#include "muster/trainer/evaluation.h"

#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/in_process_collectives.h"
#include "muster/trainer/logistic_module.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kWidth = 3;

// Counts who reads what, over all ranks.
class Ledger {
 public:
  void Add(absl::Span<const int64_t> indices) {
    absl::MutexLock lock(&mutex_);
    read_.insert(indices.begin(), indices.end());
  }
  std::multiset<int64_t> read() const {
    absl::MutexLock lock(&mutex_);
    return read_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::multiset<int64_t> read_ ABSL_GUARDED_BY(mutex_);
};

class CountedData : public PlaneData {
 public:
  CountedData(int64_t size, Ledger& ledger) : PlaneData(size, kWidth), ledger_(ledger) {}
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) override {
    ledger_.Add(indices);
    return PlaneData::Read(indices, batch);
  }

 private:
  Ledger& ledger_;
};

absl::Status Evaluate(Collectives& ranks, Module& module, Dataset& data,
                      const absl::StatusOr<int64_t>& batch_size, MetricSums* result = nullptr) {
  Progress progress(nullptr, absl::Now);
  EvaluationLoop loop({ranks, progress, absl::Now}, "test", module, data, batch_size);
  absl::Status status = loop.Prepare();
  if (status.ok()) status = loop.Run();
  if (result != nullptr) *result = loop.result();
  return status;
}

// A third of the data was never seen when 2 ranks became 3 (peers of Muster): here each sample
// counts once, whatever the sizes.
TEST(EvaluationTest, EachSampleCountsExactlyOnceWhateverTheSizesAreDivisibleBy) {
  for (int64_t samples : {1, 2, 7, 64, 101}) {
    LogisticModule reference(kWidth, 0.3f);
    PlaneData all(samples, kWidth);
    InProcessWorld one(1);
    MetricSums expected;
    ASSERT_TRUE(Evaluate(one.rank(0), reference, all, 1000, &expected).ok());
    for (int size : {1, 2, 3, 4}) {
      Ledger ledger;
      for (const absl::Status& status : RunRanks(size, [&](Collectives& ranks) {
             CountedData data(samples, ledger);
             LogisticModule module(kWidth, 0.3f);
             MetricSums sums;
             absl::Status status = Evaluate(ranks, module, data, 8, &sums);
             EXPECT_EQ(sums.count, samples);
             EXPECT_EQ(sums.correct, expected.correct);
             EXPECT_NEAR(sums.loss, expected.loss, 1e-9 * samples);
             return status;
           })) {
        EXPECT_TRUE(status.ok()) << status;
      }
      std::multiset<int64_t> each;
      for (int64_t i = 0; i < samples; ++i) each.insert(i);
      EXPECT_EQ(ledger.read(), each) << samples << " samples on " << size << " ranks";
    }
  }
}

TEST(EvaluationTest, UnequalWeightsAreFoundBeforeAnyIsUsed) {
  const auto statuses = RunRanks(2, [](Collectives& ranks) {
    PlaneData data(8, kWidth);
    LogisticModule module(kWidth, static_cast<float>(ranks.rank()));
    return Evaluate(ranks, module, data, 4);
  });
  EXPECT_EQ(statuses[0], statuses[1]);
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(statuses[0].message(), HasSubstr("test: parameter weight of rank 1 differs"));
}

TEST(EvaluationTest, AnEmptyDataSetOfOneRankIsEveryRanksError) {
  const auto statuses = RunRanks(2, [](Collectives& ranks) {
    PlaneData data(ranks.rank() == 1 ? 0 : 8, kWidth);
    LogisticModule module(kWidth);
    return Evaluate(ranks, module, data, 4);
  });
  EXPECT_EQ(statuses[0], statuses[1]);
  EXPECT_THAT(statuses[0].message(), HasSubstr("rank 1: test: the data set has 0 samples"));
}

TEST(EvaluationTest, ABatchSizeThatOneRankLacksIsEveryRanksError) {
  const auto statuses = RunRanks(2, [](Collectives& ranks) {
    PlaneData data(8, kWidth);
    LogisticModule module(kWidth);
    absl::StatusOr<int64_t> batch_size = 4;
    if (ranks.rank() == 1) batch_size = absl::InvalidArgumentError("batch_size is 0");
    return Evaluate(ranks, module, data, batch_size);
  });
  EXPECT_EQ(statuses[0], statuses[1]);
  EXPECT_EQ(statuses[0].message(), "rank 1: test: batch_size is 0");
}

// PL#8130: one rank throws in validation, rank 0 waits for ever.
TEST(EvaluationTest, AnErrorOfOneRankEndsTheOthers) {
  class Broken : public LogisticModule {
   public:
    using LogisticModule::LogisticModule;
    absl::Status EvaluateStep(const Batch&, MetricSums&) override {
      return absl::OutOfRangeError("label 17");
    }
  };
  const auto statuses = RunRanks(2, [](Collectives& ranks) {
    PlaneData data(8, kWidth);
    LogisticModule good(kWidth);
    Broken broken(kWidth);
    Module& module = ranks.rank() == 1 ? static_cast<Module&>(broken) : good;
    return Evaluate(ranks, module, data, 4);
  });
  EXPECT_EQ(statuses[1], absl::OutOfRangeError("test, batch 1: label 17"));
  EXPECT_THAT(statuses[0].message(), HasSubstr("rank 1 left: test, batch 1: label 17"));
}

}  // namespace
}  // namespace muster

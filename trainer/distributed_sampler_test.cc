#include "muster/trainer/distributed_sampler.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SamplerOptions Options(int64_t size, int world_size, Remainder remainder) {
  SamplerOptions options;
  options.size = size;
  options.world_size = world_size;
  options.remainder = remainder;
  options.seed = 7;
  return options;
}

// What each rank takes in `epoch`.
std::vector<std::vector<int64_t>> AllRanks(SamplerOptions options, int64_t epoch) {
  std::vector<std::vector<int64_t>> all;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    DistributedSampler sampler = *DistributedSampler::Create(options);
    sampler.SetEpoch(epoch);
    all.emplace_back(sampler.indices().begin(), sampler.indices().end());
  }
  return all;
}

std::multiset<int64_t> Union(const std::vector<std::vector<int64_t>>& all) {
  std::multiset<int64_t> result;
  for (const auto& one : all) result.insert(one.begin(), one.end());
  return result;
}

TEST(DistributedSamplerTest, ExactTakesEverySampleExactlyOnceForEverySizeAndWorld) {
  for (int world_size : {1, 2, 3, 4, 7}) {
    for (int64_t size : {0, 1, 2, 3, 5, 6, 7, 8, 100, 101}) {
      SamplerOptions options = Options(size, world_size, Remainder::kExact);
      for (bool shuffle : {false, true}) {
        options.shuffle = shuffle;
        const auto all = AllRanks(options, 3);
        const std::multiset<int64_t> samples = Union(all);
        EXPECT_EQ(static_cast<int64_t>(samples.size()), size);
        EXPECT_EQ(static_cast<int64_t>(std::set<int64_t>(samples.begin(), samples.end()).size()),
                  size);
        for (const auto& one : all) {
          EXPECT_GE(static_cast<int64_t>(one.size()), size / world_size);
          EXPECT_LE(static_cast<int64_t>(one.size()), size / world_size + 1);
        }
      }
    }
  }
}

TEST(DistributedSamplerTest, PadGivesEveryRankAsManyAndLeavesNoSampleOut) {
  for (int world_size : {1, 2, 3, 4, 7}) {
    for (int64_t size : {1, 2, 3, 5, 8, 100}) {
      const auto all = AllRanks(Options(size, world_size, Remainder::kPad), 0);
      const std::multiset<int64_t> samples = Union(all);
      for (const auto& one : all) EXPECT_EQ(one.size(), all[0].size());
      for (int64_t i = 0; i < size; ++i) EXPECT_GE(samples.count(i), 1u);
      EXPECT_LT(static_cast<int64_t>(samples.size()) - size, world_size);
    }
  }
}

TEST(DistributedSamplerTest, PadServesMoreRanksThanSamples) {
  const auto all = AllRanks(Options(2, 5, Remainder::kPad), 0);
  for (const auto& one : all) EXPECT_EQ(one.size(), 1u);
  EXPECT_EQ(Union(all).count(0) + Union(all).count(1), 5u);
}

TEST(DistributedSamplerTest, DropGivesEveryRankAsManyAndRepeatsNone) {
  const auto all = AllRanks(Options(101, 4, Remainder::kDrop), 2);
  const std::multiset<int64_t> samples = Union(all);
  EXPECT_EQ(samples.size(), 100u);
  EXPECT_EQ(std::set<int64_t>(samples.begin(), samples.end()).size(), 100u);
  for (const auto& one : all) EXPECT_EQ(one.size(), 25u);
}

TEST(DistributedSamplerTest, DropLeavesOutOthersInAnotherEpoch) {
  const auto first = Union(AllRanks(Options(101, 4, Remainder::kDrop), 0));
  const auto second = Union(AllRanks(Options(101, 4, Remainder::kDrop), 1));
  EXPECT_NE(first, second);
}

TEST(DistributedSamplerTest, EpochsDifferAndOneEpochRepeatsItself) {
  SamplerOptions options = Options(50, 2, Remainder::kPad);
  std::set<std::vector<int64_t>> seen;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    EXPECT_EQ(AllRanks(options, epoch), AllRanks(options, epoch));
    EXPECT_TRUE(seen.insert(AllRanks(options, epoch)[0]).second) << "epoch " << epoch;
  }
  options.seed = 8;
  EXPECT_TRUE(seen.insert(AllRanks(options, 0)[0]).second) << "another seed, another order";
}

TEST(DistributedSamplerTest, TheOrderIsFixedForAllPlatforms) {
  SamplerOptions options = Options(10, 1, Remainder::kPad);
  options.seed = 1;
  const std::vector<int64_t> order = AllRanks(options, 0)[0];
  EXPECT_EQ(AllRanks(options, 0)[0], order);
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_THAT(sorted, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(order, ElementsAre(4, 2, 1, 3, 7, 9, 5, 0, 6, 8));
}

TEST(DistributedSamplerTest, AStepOfAllRanksIsAStepOfOneRankWithTheWholeBatch) {
  constexpr int64_t kGlobalBatch = 12;
  SamplerOptions options = Options(120, 1, Remainder::kPad);
  DistributedSampler alone = *DistributedSampler::Create(options);
  for (int world_size : {2, 3, 4}) {
    options.world_size = world_size;
    for (int64_t step = 0; step < alone.batches(kGlobalBatch); ++step) {
      const auto whole = alone.batch(step, kGlobalBatch);
      std::multiset<int64_t> parts;
      for (options.rank = 0; options.rank < world_size; ++options.rank) {
        DistributedSampler sampler = *DistributedSampler::Create(options);
        const auto part = sampler.batch(step, kGlobalBatch / world_size);
        parts.insert(part.begin(), part.end());
      }
      EXPECT_EQ(parts, std::multiset<int64_t>(whole.begin(), whole.end()));
    }
  }
}

TEST(DistributedSamplerTest, TheLastBatchMayBeSmaller) {
  SamplerOptions options = Options(10, 1, Remainder::kPad);
  options.shuffle = false;
  DistributedSampler sampler = *DistributedSampler::Create(options);
  EXPECT_EQ(sampler.batches(4), 3);
  EXPECT_THAT(sampler.batch(2, 4), ElementsAre(8, 9));
}

TEST(DistributedSamplerTest, AHugeBatchHoldsEverything) {
  SamplerOptions options = Options(10, 1, Remainder::kPad);
  options.shuffle = false;
  DistributedSampler sampler = *DistributedSampler::Create(options);
  for (int64_t batch_size : {int64_t{10}, int64_t{11}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(sampler.batches(batch_size), 1);
    EXPECT_EQ(sampler.batch(0, batch_size).size(), 10u);
  }
  options.size = 0;
  options.remainder = Remainder::kExact;
  DistributedSampler empty = *DistributedSampler::Create(options);
  EXPECT_EQ(empty.batches(std::numeric_limits<int64_t>::max()), 0);
}

TEST(DistributedSamplerTest, RefusesWhatLeavesARankWithoutSamples) {
  EXPECT_THAT(DistributedSampler::Create(Options(0, 2, Remainder::kPad)).status().message(),
              HasSubstr("empty"));
  EXPECT_THAT(DistributedSampler::Create(Options(3, 4, Remainder::kDrop)).status().message(),
              HasSubstr("3 samples for 4 ranks"));
  SamplerOptions outside = Options(3, 2, Remainder::kPad);
  outside.rank = 2;
  EXPECT_THAT(DistributedSampler::Create(outside).status().message(),
              HasSubstr("rank 2 is not in a world of 2"));
}

}  // namespace
}  // namespace muster

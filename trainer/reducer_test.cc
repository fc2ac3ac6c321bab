#include "muster/trainer/reducer.h"

#include <deque>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/in_process_collectives.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Parameters with memory of their own.
class Model {
 public:
  Model& Add(const std::string& name, int64_t count) {
    data_.emplace_back(count, 0.0f);
    gradients_.emplace_back(count, 0.0f);
    parameters_.push_back({name,
                           Buffer::Of(absl::MakeSpan(data_.back())),
                           Buffer::Of(absl::MakeSpan(gradients_.back())),
                           {count}});
    return *this;
  }
  Model& AddDouble(const std::string& name, int64_t count) {
    doubles_.emplace_back(2 * count, 0.0);
    double* data = doubles_.back().data();
    parameters_.push_back({name,
                           Buffer{data, count, DataType::kF64, Device::Cpu()},
                           Buffer{data + count, count, DataType::kF64, Device::Cpu()},
                           {count}});
    return *this;
  }
  absl::Span<const Parameter> parameters() const { return parameters_; }
  std::vector<float>& gradient(int i) { return gradients_[i]; }

 private:
  std::deque<std::vector<float>> data_;  // deques: growing moves nothing
  std::deque<std::vector<float>> gradients_;
  std::deque<std::vector<double>> doubles_;
  std::vector<Parameter> parameters_;
};

// Answers nothing until told so: shows what is in flight.
class ManualCollectives : public Collectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::Status AllReduce(Buffer, ReduceOp) override { return absl::UnimplementedError("not here"); }
  absl::Status AllGather(ConstBuffer, Buffer) override {
    return absl::UnimplementedError("not here");
  }
  absl::Status Broadcast(Buffer, int) override { return absl::UnimplementedError("not here"); }
  Work AllReduceAsync(Buffer buffer, ReduceOp op) override {
    EXPECT_EQ(op, ReduceOp::kAverage);
    buffers.push_back(buffer);
    states.push_back(std::make_shared<WorkState>());
    return Work(states.back());
  }

  std::vector<Buffer> buffers;
  std::vector<std::shared_ptr<WorkState>> states;
};

float* Floats(const Buffer& buffer) { return static_cast<float*>(buffer.data); }

TEST(BucketLayoutTest, FillsFromTheLastParameterAndTheFirstBucketIsSmall) {
  Model model;
  model.Add("a", 16).Add("b", 16).Add("c", 16).Add("d", 16).Add("e", 16);  // 64 bytes each
  const BucketLayout layout =
      BucketLayout::Plan(model.parameters(), {/*bucket_bytes=*/128, /*first_bucket_bytes=*/64});
  ASSERT_EQ(layout.buckets.size(), 3u);
  EXPECT_THAT(layout.buckets[0].parameters, ElementsAre(4));
  EXPECT_THAT(layout.buckets[1].parameters, ElementsAre(3, 2));
  EXPECT_THAT(layout.buckets[2].parameters, ElementsAre(1, 0));
  EXPECT_EQ(layout.slots[2].bucket, 1);
  EXPECT_EQ(layout.slots[2].offset, 16);
}

TEST(BucketLayoutTest, AParameterLargerThanABucketHasOneOfItsOwn) {
  Model model;
  model.Add("a", 16).Add("huge", 1000).Add("c", 16);
  const BucketLayout layout = BucketLayout::Plan(model.parameters(), {128, 128});
  ASSERT_EQ(layout.buckets.size(), 3u);
  EXPECT_THAT(layout.buckets[1].parameters, ElementsAre(1));
}

TEST(BucketLayoutTest, ABucketHasOneTypeAndSlotsStartOnCacheLines) {
  Model model;
  model.Add("a", 3).Add("b", 5).AddDouble("c", 3).AddDouble("d", 1);
  const BucketLayout layout = BucketLayout::Plan(model.parameters(), {});
  ASSERT_EQ(layout.buckets.size(), 2u);
  EXPECT_EQ(layout.buckets[0].dtype, DataType::kF64);
  EXPECT_EQ(layout.buckets[0].count, 16);  // two cache lines of f64
  EXPECT_EQ(layout.slots[2].offset, 8);
  EXPECT_EQ(layout.slots[0].offset, 16);
}

TEST(BucketSizesTest, RefusesSizesBelowOneAndNamesThem) {
  EXPECT_THAT(BucketSizes({0, 1}).Validate().message(), HasSubstr("bucket_bytes is 0"));
  EXPECT_THAT(BucketSizes({1, -3}).Validate().message(), HasSubstr("first_bucket_bytes is -3"));
  EXPECT_TRUE(BucketSizes().Validate().ok());
}

TEST(ReducerTest, EveryRankGetsTheAverageOfEveryGradient) {
  for (int size : {1, 2, 4}) {
    for (const absl::Status& status : RunRanks(size, [size](Collectives& ranks) {
           Model model;
           model.Add("a", 3).Add("b", 40).Add("c", 1);
           Reducer reducer(ranks, model.parameters(), {128, 64});
           for (int step = 0; step < 5; ++step) {
             reducer.StartStep();
             for (int i : {2, 1, 0}) {
               for (float& g : model.gradient(i)) g = static_cast<float>(ranks.rank() + i + step);
               reducer.Ready(i, model.parameters()[i].gradient);
             }
             absl::Status status = reducer.FinishStep();
             if (!status.ok()) return status;
             for (int i : {0, 1, 2}) {
               const Buffer& average = reducer.gradients()[i];
               for (int64_t e = 0; e < average.count; ++e) {
                 EXPECT_EQ(Floats(average)[e], (size - 1) / 2.0f + i + step);
               }
             }
           }
           return absl::OkStatus();
         })) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(ReducerTest, GradientsWrittenInPlaceAreNotCopied) {
  for (const absl::Status& status : RunRanks(2, [](Collectives& ranks) {
         Model model;
         model.Add("a", 3);
         Reducer reducer(ranks, model.parameters(), {});
         const Buffer place = reducer.gradients()[0];
         Floats(place)[0] = static_cast<float>(ranks.rank());
         reducer.Ready(0, place);
         absl::Status status = reducer.FinishStep();
         EXPECT_EQ(Floats(place)[0], 0.5f);
         return status;
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ReducerTest, ABucketLeavesWhileTheOthersAreStillComputed) {
  ManualCollectives ranks;
  Model model;
  model.Add("first", 16).Add("last", 16);
  Reducer reducer(ranks, model.parameters(), {64, 64});
  reducer.Ready(1, model.parameters()[1].gradient);
  EXPECT_EQ(ranks.buffers.size(), 1u) << "in flight before the backward pass is over";
  reducer.Ready(0, model.parameters()[0].gradient);
  EXPECT_EQ(ranks.buffers.size(), 2u);
  for (auto& state : ranks.states) state->Finish(absl::OkStatus());
  EXPECT_TRUE(reducer.FinishStep().ok());
}

TEST(ReducerTest, BucketsLeaveInOneOrderWhateverTheOrderOfGradients) {
  ManualCollectives ranks;
  Model model;
  model.Add("a", 16).Add("b", 16).Add("c", 16);
  Reducer reducer(ranks, model.parameters(), {64, 64});
  reducer.Ready(0, model.parameters()[0].gradient);
  reducer.Ready(1, model.parameters()[1].gradient);
  EXPECT_EQ(reducer.started(), 0) << "c's bucket comes first on every rank";
  reducer.Ready(2, model.parameters()[2].gradient);
  EXPECT_EQ(reducer.started(), 3);
  EXPECT_EQ(ranks.buffers[0].data, reducer.gradients()[2].data);
  EXPECT_EQ(ranks.buffers[2].data, reducer.gradients()[0].data);
  for (auto& state : ranks.states) state->Finish(absl::OkStatus());
}

TEST(ReducerTest, AFailedReductionIsTheResultOfTheStep) {
  ManualCollectives ranks;
  Model model;
  model.Add("a", 16).Add("b", 16);
  Reducer reducer(ranks, model.parameters(), {64, 64});
  for (int i : {1, 0}) reducer.Ready(i, model.parameters()[i].gradient);
  ranks.states[0]->Finish(absl::OkStatus());
  ranks.states[1]->Finish(absl::UnavailableError("rank 1 was lost"));
  EXPECT_EQ(reducer.FinishStep(), absl::UnavailableError("rank 1 was lost"));
}

TEST(ReducerTest, MisuseIsNamedAndStartsNothing) {
  ManualCollectives ranks;
  Model model;
  model.Add("weight", 16).Add("bias", 4);
  Reducer reducer(ranks, model.parameters(), {});

  reducer.Ready(1, model.parameters()[1].gradient);
  EXPECT_THAT(reducer.FinishStep().message(), HasSubstr("without the gradient of weight"));
  reducer.StartStep();
  reducer.Ready(1, model.parameters()[1].gradient);
  reducer.Ready(1, model.parameters()[1].gradient);
  EXPECT_THAT(reducer.FinishStep().message(), HasSubstr("gradient of bias twice"));
  reducer.StartStep();
  reducer.Ready(2, Buffer());
  EXPECT_THAT(reducer.FinishStep().message(), HasSubstr("parameter 2: it has 0 to 1"));
  reducer.StartStep();
  reducer.Ready(0, model.parameters()[1].gradient);
  EXPECT_THAT(reducer.FinishStep().message(), HasSubstr("the gradient of weight is f32[4]"));
  EXPECT_TRUE(ranks.buffers.empty());
}

}  // namespace
}  // namespace muster

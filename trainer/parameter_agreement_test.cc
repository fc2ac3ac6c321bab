#include "muster/trainer/parameter_agreement.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/in_process_collectives.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Two parameters with memory of their own, which a test then breaks.
struct Model {
  std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  std::vector<float> weight_gradient = std::vector<float>(6);
  std::vector<float> bias = {7};
  std::vector<float> bias_gradient = std::vector<float>(1);
  std::vector<Parameter> parameters = {
      {"weight",
       Buffer::Of(absl::MakeSpan(weight)),
       Buffer::Of(absl::MakeSpan(weight_gradient)),
       {2, 3}},
      {"bias", Buffer::Of(absl::MakeSpan(bias)), Buffer::Of(absl::MakeSpan(bias_gradient)), {1}}};
};

BucketLayout Layout(const Model& model, int64_t bytes = 1 << 20) {
  return BucketLayout::Plan(model.parameters, {bytes, bytes});
}

std::string Wrong(const std::function<void(Model&)>& break_it) {
  Model model;
  break_it(model);
  return std::string(ValidateParameters(model.parameters).message());
}

TEST(ValidateParametersTest, NamesTheParameterAndWhatIsWrong) {
  EXPECT_EQ(Wrong([](Model&) {}), "");
  EXPECT_THAT(Wrong([](Model& m) { m.parameters.clear(); }), HasSubstr("no parameters"));
  EXPECT_THAT(Wrong([](Model& m) { m.parameters[1].name = ""; }), HasSubstr("has no name"));
  EXPECT_THAT(Wrong([](Model& m) { m.parameters[1].name = "weight"; }),
              HasSubstr("parameter weight f32[1] of the module has another's name"));
  EXPECT_THAT(Wrong([](Model& m) { m.parameters[0].shape = {2, 4}; }),
              HasSubstr("weight f32[2,4] of the module has 6 elements and a shape of 8: set "
                        "Parameter::shape to {6}, or as the model has it"));
  EXPECT_THAT(Wrong([](Model& m) { m.parameters[0].data.data = nullptr; }),
              HasSubstr("no elements"));
  EXPECT_THAT(Wrong([](Model& m) { m.parameters[0].gradient.data = nullptr; }),
              HasSubstr("has a gradient f32[6]"));
  EXPECT_THAT(Wrong([](Model& m) { m.parameters[0].gradient.count = 5; }),
              HasSubstr("has a gradient f32[5]"));
  EXPECT_THAT(Wrong([](Model& m) {
                m.parameters[0].data.dtype = m.parameters[0].gradient.dtype = DataType::kI32;
              }),
              HasSubstr("is i32: use f32 or f64"));
  EXPECT_THAT(Wrong([](Model& m) { m.parameters[0].data.device = Device::Cuda(1); }),
              HasSubstr("is on cuda:1: the trainer knows the CPU alone"));
}

TEST(VerifySameModelTest, EqualModelsAgree) {
  for (const absl::Status& status : RunRanks(3, [](Collectives& ranks) {
         Model model;
         model.weight[0] = static_cast<float>(ranks.rank());  // values do not matter here
         return VerifySameModel(ranks, model.parameters, Layout(model));
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(VerifySameModelTest, EveryRankSeesWhatTheTwoHave) {
  const auto statuses = RunRanks(3, [](Collectives& ranks) {
    Model model;
    if (ranks.rank() == 2) model.parameters[0].shape = {3, 2};
    return VerifySameModel(ranks, model.parameters, Layout(model));
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(
        status.message(),
        HasSubstr("parameter 0 is weight f32[3,2] on rank 2 and weight f32[2,3] on rank 0"));
  }
}

TEST(VerifySameModelTest, AnotherPlaceInTheBucketsIsAnotherModel) {
  const auto statuses = RunRanks(2, [](Collectives& ranks) {
    Model model;
    return VerifySameModel(ranks, model.parameters, Layout(model, ranks.rank() == 0 ? 64 : 4096));
  });
  EXPECT_THAT(statuses[0].message(), HasSubstr("same model and bucket sizes"));
}

TEST(BroadcastParametersTest, EveryRankEndsWithTheValuesOfRankZero) {
  for (const absl::Status& status : RunRanks(3, [](Collectives& ranks) {
         Model model;
         for (float& w : model.weight) w += static_cast<float>(ranks.rank());
         model.bias[0] = static_cast<float>(ranks.rank());
         absl::Status status = BroadcastParameters(ranks, model.parameters);
         EXPECT_EQ(model.weight, (std::vector<float>{1, 2, 3, 4, 5, 6}));
         EXPECT_EQ(model.bias[0], 0);
         if (status.ok()) status = VerifySameValues(ranks, model.parameters, "after it");
         return status;
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(VerifySameValuesTest, OneBitOnOneRankIsFoundAndNamed) {
  const auto statuses = RunRanks(4, [](Collectives& ranks) {
    Model model;
    if (ranks.rank() == 3) model.bias[0] = std::nextafter(model.bias[0], 8.0f);
    return VerifySameValues(ranks, model.parameters, "fit");
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status.message(), HasSubstr("fit: parameter bias of rank 3 differs from rank 0's"));
  }
}

TEST(ChecksumTest, EveryBitOfEveryByteCounts) {
  std::vector<uint8_t> bytes(19, 0);
  const auto sum = [&] { return Checksum(ConstBuffer::Of(absl::MakeConstSpan(bytes))); };
  std::set<int64_t> seen = {sum()};
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] = static_cast<uint8_t>(1 << bit);
      EXPECT_TRUE(seen.insert(sum()).second) << "byte " << i << ", bit " << bit;
    }
    bytes[i] = 0;
  }
  bytes.push_back(0);
  EXPECT_TRUE(seen.insert(sum()).second) << "the length";
}

}  // namespace
}  // namespace muster

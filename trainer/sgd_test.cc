#include "muster/trainer/sgd.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

template <class T>
Parameter MakeParameter(std::vector<T>& data, std::vector<T>& gradient) {
  return {"w",
          Buffer::Of(absl::MakeSpan(data)),
          Buffer::Of(absl::MakeSpan(gradient)),
          {static_cast<int64_t>(data.size())}};
}

TEST(SgdTest, IsTheFormulaOfPyTorchForFiveSteps) {
  const SgdOptions options = {/*learning_rate=*/0.1, /*momentum=*/0.9, /*weight_decay=*/0.01};
  std::vector<double> w = {1, -2, 0.5};
  std::vector<double> g(3);
  const std::vector<Parameter> parameters = {MakeParameter(w, g)};
  Sgd sgd(parameters, options);
  std::vector<double> expected = w;
  std::vector<double> b(3, 0);
  for (int step = 0; step < 5; ++step) {
    for (int i = 0; i < 3; ++i) {
      g[i] = 0.3 * (i + 1) - 0.1 * step;
      const double d = g[i] + 0.01 * expected[i];
      b[i] = step == 0 ? d : 0.9 * b[i] + d;
      expected[i] -= 0.1 * b[i];
    }
    sgd.Step({parameters[0].gradient});
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(w[i], expected[i], 1e-15) << "step " << step;
  }
}

TEST(SgdTest, WithoutMomentumItIsPlainDescent) {
  std::vector<float> w = {1, 2};
  std::vector<float> g = {0.5f, -1};
  const std::vector<Parameter> parameters = {MakeParameter(w, g)};
  Sgd sgd(parameters, {/*learning_rate=*/0.5});
  sgd.Step({parameters[0].gradient});
  sgd.Step({parameters[0].gradient});
  EXPECT_EQ(w, (std::vector<float>{0.5f, 3}));
}

TEST(SgdTest, EachParameterHasItsOwnMomentumAndType) {
  std::vector<float> a = {0};
  std::vector<float> ga = {1};
  std::vector<double> b = {0};
  std::vector<double> gb = {0};
  const std::vector<Parameter> parameters = {MakeParameter(a, ga), MakeParameter(b, gb)};
  Sgd sgd(parameters, {/*learning_rate=*/1, /*momentum=*/0.5});
  sgd.Step({parameters[0].gradient, parameters[1].gradient});
  sgd.Step({parameters[0].gradient, parameters[1].gradient});
  EXPECT_EQ(a[0], -2.5f);  // 1, then 1.5
  EXPECT_EQ(b[0], 0);
}

TEST(SgdOptionsTest, RefusesWhatCannotTrainAndNamesTheValue) {
  EXPECT_TRUE(SgdOptions().Validate().ok());
  EXPECT_THAT(SgdOptions({0, 0, 0}).Validate().message(), HasSubstr("learning_rate is 0"));
  EXPECT_THAT(SgdOptions({-1, 0, 0}).Validate().message(), HasSubstr("learning_rate is -1"));
  EXPECT_THAT(SgdOptions({std::nan(""), 0, 0}).Validate().message(),
              HasSubstr("learning_rate is nan"));
  EXPECT_THAT(SgdOptions({1, 1, 0}).Validate().message(), HasSubstr("momentum is 1"));
  EXPECT_THAT(SgdOptions({1, -0.5, 0}).Validate().message(), HasSubstr("momentum is -0.5"));
  EXPECT_THAT(SgdOptions({1, 0, -2}).Validate().message(), HasSubstr("weight_decay is -2"));
}

}  // namespace
}  // namespace muster

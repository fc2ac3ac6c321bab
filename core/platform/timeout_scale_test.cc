#include "muster/core/platform/timeout_scale.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

double ScaleOf(const char* text) {
  return TimeoutScale(Environment(Environment::Variables{{"MUSTER_TIMEOUT_SCALE", text}}));
}

TEST(TimeoutScaleTest, IsTheVariableWithinBounds) {
  EXPECT_EQ(ScaleOf("5"), 5);
  EXPECT_EQ(ScaleOf("2.5"), 2.5);
  EXPECT_EQ(ScaleOf("1e9"), 100);
}

TEST(TimeoutScaleTest, IsOneForWhatMakesNoSense) {
  for (const char* text : {"", "x", "0", "-3", "nan", "5s"}) EXPECT_EQ(ScaleOf(text), 1) << text;
  EXPECT_EQ(TimeoutScale(Environment(Environment::Variables{})), 1);
}

}  // namespace
}  // namespace muster

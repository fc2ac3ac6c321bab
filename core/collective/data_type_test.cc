#include "muster/core/collective/data_type.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

// The value of a binary16 by its definition, in double.
double HalfByDefinition(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

double BrainByDefinition(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 7) & 0xff;
  const int fraction = bits & 0x7f;
  if (exponent == 0xff) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -133);
  return sign * std::ldexp(128 + fraction, exponent - 134);
}

TEST(DataTypeTest, EveryTypeHasASizeAndANameOfItsOwn) {
  std::set<std::string> names;
  for (DataType dtype : kAllDataTypes) {
    EXPECT_GT(SizeOf(dtype), 0);
    names.insert(std::string(Name(dtype)));
  }
  EXPECT_EQ(names, (std::set<std::string>{"f16", "bf16", "f32", "f64", "i8", "u8", "i32", "i64"}));
  EXPECT_EQ(SizeOf(DataTypeOf<Float16>()), 2);
  EXPECT_EQ(SizeOf(DataTypeOf<BFloat16>()), 2);
  EXPECT_EQ(SizeOf(DataTypeOf<double>()), 8);
  EXPECT_EQ(SizeOf(DataTypeOf<uint8_t>()), 1);
  EXPECT_TRUE(IsInteger(DataType::kU8));
  EXPECT_FALSE(IsInteger(DataType::kBF16));
}

TEST(DataTypeTest, EveryFloat16HasItsValueAndSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const float value = ToFloat(half);
    if (std::isnan(HalfByDefinition(half.bits))) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(ToFloat(ToFloat16(value)))) << bits;
      continue;
    }
    ASSERT_EQ(value, HalfByDefinition(half.bits)) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(ToFloat16(value).bits, half.bits) << bits;
  }
}

TEST(DataTypeTest, EveryBFloat16HasItsValueAndSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const BFloat16 brain{static_cast<uint16_t>(bits)};
    const float value = ToFloat(brain);
    if (std::isnan(BrainByDefinition(brain.bits))) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(ToFloat(ToBFloat16(value)))) << bits;
      continue;
    }
    ASSERT_EQ(value, BrainByDefinition(brain.bits)) << bits;
    ASSERT_EQ(ToBFloat16(value).bits, brain.bits) << bits;
  }
}

// Between each pair of neighbours: a little less than half way, half way, a little more.
TEST(DataTypeTest, Float16RoundsToNearestAndTiesToEven) {
  for (uint16_t bits = 0; bits < 0x7c00; ++bits) {
    const double low = HalfByDefinition(bits);
    // What follows the largest one, 65504, is 65536: from half way on it is an infinity.
    const double high =
        bits == 0x7bff ? 65536.0 : HalfByDefinition(static_cast<uint16_t>(bits + 1));
    const float middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(middle, (low + high) / 2);
    const uint16_t even = (bits & 1) == 0 ? bits : static_cast<uint16_t>(bits + 1);
    ASSERT_EQ(ToFloat16(middle).bits, even) << bits;
    ASSERT_EQ(ToFloat16(-middle).bits, even | 0x8000) << bits;
    ASSERT_EQ(ToFloat16(std::nextafter(middle, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(ToFloat16(std::nextafter(middle, 1e9f)).bits, bits + 1) << bits;
  }
  EXPECT_EQ(ToFloat16(1e-30f).bits, 0);
  EXPECT_EQ(ToFloat16(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(ToFloat16(std::numeric_limits<float>::max()).bits, 0x7c00);
}

TEST(DataTypeTest, BFloat16RoundsToNearestAndTiesToEven) {
  const auto float_of = [](uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  };
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const uint32_t even = (bits & 1) == 0 ? bits : bits + 1;
    ASSERT_EQ(ToBFloat16(float_of(bits << 16 | 0x7fff)).bits, bits);
    ASSERT_EQ(ToBFloat16(float_of(bits << 16 | 0x8000)).bits, even);
    ASSERT_EQ(ToBFloat16(float_of(bits << 16 | 0x8001)).bits, bits + 1);
    ASSERT_EQ(ToBFloat16(float_of(0x80000000u | bits << 16 | 0x8001)).bits, 0x8000 | (bits + 1));
  }
  EXPECT_EQ(ToBFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

// The payload of this NaN lies in the bits that a narrower type has no room for.
TEST(DataTypeTest, ANaNWhosePayloadIsCutOffIsStillANaN) {
  const uint32_t bits = 0x7f800001u;
  float nan;
  std::memcpy(&nan, &bits, sizeof(nan));
  EXPECT_TRUE(std::isnan(ToFloat(ToFloat16(nan))));
  EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(nan))));
}

}  // namespace
}  // namespace muster

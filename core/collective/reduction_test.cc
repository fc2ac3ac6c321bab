#include "muster/core/collective/reduction.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"

namespace muster {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <class T>
T Make(double value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
long double Value(T value) {
  if constexpr (kIsHalf<T>) {
    return ToFloat(value);
  } else {
    return static_cast<long double>(value);
  }
}

// What the elements of one column reduce to, in long double: exact for the small values below.
template <class T>
long double Expected(const std::vector<std::vector<T>>& inputs, size_t i, ReduceOp op) {
  long double result = Value(inputs[0][i]);
  for (size_t r = 1; r < inputs.size(); ++r) {
    const long double x = Value(inputs[r][i]);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += x;
        break;
      case ReduceOp::kProduct:
        result *= x;
        break;
      case ReduceOp::kMin:
        result = std::fmin(result, x);
        break;
      case ReduceOp::kMax:
        result = std::fmax(result, x);
        break;
    }
  }
  return op == ReduceOp::kAverage ? result / inputs.size() : result;
}

template <class T>
class ReductionOfTypeTest : public testing::Test {};
using AllTypes =
    testing::Types<Float16, BFloat16, float, double, int8_t, uint8_t, int32_t, int64_t>;
TYPED_TEST_SUITE(ReductionOfTypeTest, AllTypes);

TYPED_TEST(ReductionOfTypeTest, EveryOperationGivesWhatItsDefinitionGives) {
  using T = TypeParam;
  const DataType dtype = DataTypeOf<T>();
  for (ReduceOp op : kAllReduceOps) {
    if (!CheckReduction(op, dtype).ok()) continue;
    for (size_t count : {0, 1, 7, 64, 1001}) {
      // Four inputs, as many as an average divides by without a rest in binary.
      std::vector<std::vector<T>> inputs(4);
      for (size_t r = 0; r < inputs.size(); ++r) {
        for (size_t i = 0; i < count; ++i) {
          inputs[r].push_back(Make<T>(static_cast<double>((i * 7 + r * 3) % 3 + 1)));
        }
      }
      Accumulator accumulator(static_cast<int64_t>(count), dtype, op);
      std::vector<T> pairwise = inputs[0];
      for (size_t r = 0; r < inputs.size(); ++r) {
        accumulator.Add(inputs[r].data());
        if (r > 0) {
          ReduceInto(pairwise.data(), inputs[r].data(), static_cast<int64_t>(count), dtype, op);
        }
      }
      std::vector<T> out(count);
      accumulator.Finish(out.data(), 4);
      if (op == ReduceOp::kAverage) {
        DivideBy(pairwise.data(), static_cast<int64_t>(count), dtype, 4);
      }
      for (size_t i = 0; i < count; ++i) {
        const std::string what = absl::StrCat(Name(op), " of ", Name(dtype), " at ", i);
        ASSERT_EQ(Value(out[i]), Expected(inputs, i, op)) << what;
        ASSERT_EQ(Value(pairwise[i]), Expected(inputs, i, op)) << what;
      }
    }
  }
}

TYPED_TEST(ReductionOfTypeTest, TheResultMayReplaceAnInput) {
  using T = TypeParam;
  std::vector<T> a = {Make<T>(1), Make<T>(2)};
  const std::vector<T> b = {Make<T>(3), Make<T>(4)};
  Accumulator accumulator(2, DataTypeOf<T>(), ReduceOp::kSum);
  accumulator.Add(a.data());
  accumulator.Add(b.data());
  accumulator.Finish(a.data(), 2);
  EXPECT_EQ(Value(a[0]), 4);
  EXPECT_EQ(Value(a[1]), 6);
}

template <class T>
class ReductionOfFloatingTypeTest : public testing::Test {};
using FloatingTypes = testing::Types<Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(ReductionOfFloatingTypeTest, FloatingTypes);

TYPED_TEST(ReductionOfFloatingTypeTest, ANaNInAnyInputIsANaNInEveryResult) {
  using T = TypeParam;
  for (ReduceOp op : kAllReduceOps) {
    for (int at = 0; at < 3; ++at) {
      Accumulator accumulator(1, DataTypeOf<T>(), op);
      for (int r = 0; r < 3; ++r) {
        const T value = Make<T>(r == at ? kNan : 1.0 + r);
        accumulator.Add(&value);
      }
      T out;
      accumulator.Finish(&out, 3);
      EXPECT_TRUE(std::isnan(Value(out))) << Name(op) << " with the NaN in input " << at;
    }
  }
}

TYPED_TEST(ReductionOfFloatingTypeTest, InfinitiesFollowIeee) {
  using T = TypeParam;
  const auto reduce = [](double a, double b, ReduceOp op) {
    T x = Make<T>(a);
    const T y = Make<T>(b);
    ReduceInto(&x, &y, 1, DataTypeOf<T>(), op);
    return Value(x);
  };
  EXPECT_EQ(reduce(kInfinity, 1, ReduceOp::kSum), kInfinity);
  EXPECT_TRUE(std::isnan(reduce(kInfinity, -kInfinity, ReduceOp::kSum)));
  EXPECT_EQ(reduce(-kInfinity, 2, ReduceOp::kProduct), -kInfinity);
  EXPECT_TRUE(std::isnan(reduce(kInfinity, 0, ReduceOp::kProduct)));
  EXPECT_EQ(reduce(-kInfinity, 2, ReduceOp::kMin), -kInfinity);
  EXPECT_EQ(reduce(2, kInfinity, ReduceOp::kMax), kInfinity);
}

template <class T>
class ReductionOfIntegerTest : public testing::Test {};
using IntegerTypes = testing::Types<int8_t, uint8_t, int32_t, int64_t>;
TYPED_TEST_SUITE(ReductionOfIntegerTest, IntegerTypes);

TYPED_TEST(ReductionOfIntegerTest, SumsAndProductsWrapAround) {
  using T = TypeParam;
  const T largest = std::numeric_limits<T>::max();
  const T smallest = std::numeric_limits<T>::min();
  const T one = 1;
  const T two = 2;
  T value = largest;
  ReduceInto(&value, &one, 1, DataTypeOf<T>(), ReduceOp::kSum);
  EXPECT_EQ(value, smallest);
  value = largest;
  ReduceInto(&value, &two, 1, DataTypeOf<T>(), ReduceOp::kProduct);
  EXPECT_EQ(value, static_cast<T>(-2));
  value = largest;
  ReduceInto(&value, &largest, 1, DataTypeOf<T>(), ReduceOp::kProduct);
  EXPECT_EQ(value, static_cast<T>(1));
}

TYPED_TEST(ReductionOfIntegerTest, MinAndMaxKnowTheSign) {
  using T = TypeParam;
  const T largest = std::numeric_limits<T>::max();
  const T smallest = std::numeric_limits<T>::min();
  T value = largest;
  ReduceInto(&value, &smallest, 1, DataTypeOf<T>(), ReduceOp::kMin);
  EXPECT_EQ(value, smallest);
  ReduceInto(&value, &largest, 1, DataTypeOf<T>(), ReduceOp::kMax);
  EXPECT_EQ(value, largest);
}

// 1 + 2^-9 nine times: each step alone is lost in bf16's 8 bits, in f32 none is.
TEST(ReductionTest, ManyHalvesAreRoundedOnceAtTheEnd) {
  const BFloat16 one = ToBFloat16(1.0f);
  const BFloat16 little = ToBFloat16(std::ldexp(1.0f, -9));
  Accumulator accumulator(1, DataType::kBF16, ReduceOp::kSum);
  accumulator.Add(&one);
  BFloat16 pairwise = one;
  for (int i = 0; i < 8; ++i) {
    accumulator.Add(&little);
    ReduceInto(&pairwise, &little, 1, DataType::kBF16, ReduceOp::kSum);
  }
  BFloat16 out;
  accumulator.Finish(&out, 1);
  EXPECT_EQ(ToFloat(out), 1.0f + std::ldexp(1.0f, -6));
  EXPECT_EQ(ToFloat(pairwise), 1.0f);
}

// 60000 + 60000 is an infinity in f16; its half is not.
TEST(ReductionTest, TheAverageOfHalvesDoesNotOverflowOnTheWay) {
  const Float16 large = ToFloat16(60000.0f);
  Accumulator accumulator(1, DataType::kF16, ReduceOp::kAverage);
  accumulator.Add(&large);
  accumulator.Add(&large);
  Float16 out;
  accumulator.Finish(&out, 2);
  EXPECT_EQ(ToFloat(out), 60000.0f);
}

TEST(ReductionTest, WidenAndNarrowAreInverse) {
  std::vector<uint16_t> bits;
  for (int i = 0; i < 500; ++i) bits.push_back(static_cast<uint16_t>(i * 60));
  for (DataType dtype : {DataType::kF16, DataType::kBF16}) {
    std::vector<float> wide(bits.size());
    std::vector<uint16_t> back(bits.size());
    Widen(bits.data(), 500, dtype, wide.data());
    Narrow(wide.data(), 500, dtype, back.data());
    EXPECT_EQ(std::memcmp(back.data(), bits.data(), 1000), 0) << Name(dtype);
  }
}

}  // namespace
}  // namespace muster

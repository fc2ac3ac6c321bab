#include "muster/core/collective/buffer.h"

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/device.h"

namespace muster {
namespace {

TEST(BufferTest, TakesCountAndTypeFromWhatItViews) {
  std::vector<int64_t> values(3);
  const Buffer buffer = Buffer::Of(absl::MakeSpan(values));
  EXPECT_EQ(buffer.data, values.data());
  EXPECT_EQ(buffer.bytes(), 24);
  EXPECT_EQ(buffer.ToString(), "i64[3] on cpu");

  double value = 0;
  EXPECT_EQ(Buffer::Of(value).ToString(), "f64[1] on cpu");
  EXPECT_EQ(ConstBuffer::Of(absl::MakeConstSpan(values)).data, values.data());
}

// Not of a temporary, which would be gone before the operation.
template <class T, class = void>
constexpr bool kViewed = false;
template <class T>
constexpr bool kViewed<T, std::void_t<decltype(ConstBuffer::Of(std::declval<T>()))>> = true;
static_assert(kViewed<const float&> && kViewed<float&> && !kViewed<float> && !kViewed<const float>);

TEST(BufferTest, OneConstantElementCanBeReadWithoutASpan) {
  const double constant = 0;
  EXPECT_EQ(ConstBuffer::Of(constant).data, &constant);
  EXPECT_EQ(ConstBuffer::Of(constant).ToString(), "f64[1] on cpu");
  int32_t variable = 0;
  EXPECT_EQ(ConstBuffer::Of(variable).ToString(), "i32[1] on cpu");
}

TEST(BufferTest, SliceCountsElements) {
  std::vector<float> values(10);
  const Buffer slice = Buffer::Of(absl::MakeSpan(values)).Slice(4, 3);
  EXPECT_EQ(slice.data, values.data() + 4);
  EXPECT_EQ(slice.count, 3);
  const ConstBuffer read = ConstBuffer(slice).Slice(1, 2);
  EXPECT_EQ(read.data, values.data() + 5);
  EXPECT_EQ(read.ToString(), "f32[2] on cpu");
}

TEST(BufferTest, KeepsItsDevice) {
  const Buffer buffer{nullptr, 0, DataType::kBF16, Device::Cuda(3)};
  EXPECT_EQ(buffer.Slice(0, 0).ToString(), "bf16[0] on cuda:3");
  EXPECT_EQ(ConstBuffer(buffer).device, Device::Cuda(3));
}

}  // namespace
}  // namespace muster

#include "muster/trainer/data.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/logistic_module.h"

namespace muster {
namespace {

TEST(SubsetTest, ShowsItsRangeUnderNumbersFromZero) {
  PlaneData all(10, 3);
  Subset part(all, 4, 3);
  EXPECT_EQ(part.size(), 3);
  ASSERT_EQ(part.fields().size(), 2u);
  BatchMemory expected(all.fields(), 2);
  BatchMemory seen(part.fields(), 2);
  Batch& whole = expected.Resize(2);
  Batch& shifted = seen.Resize(2);
  ASSERT_TRUE(all.Read({6, 4}, whole).ok());
  ASSERT_TRUE(part.Read({2, 0}, shifted).ok());
  const float* a = static_cast<const float*>(whole.fields[0].data);
  const float* b = static_cast<const float*>(shifted.fields[0].data);
  EXPECT_EQ(std::vector<float>(a, a + 6), std::vector<float>(b, b + 6));
}

TEST(BatchMemoryTest, FieldsStartOnCacheLinesAndStayWhereTheyAre) {
  const std::vector<Field> fields = {{"image", DataType::kF32, {3, 5}},
                                     {"label", DataType::kU8, {}}};
  BatchMemory memory(fields, 7);
  const Batch first = memory.Resize(7);
  ASSERT_EQ(first.fields.size(), 2u);
  EXPECT_EQ(first.fields[0].count, 7 * 15);
  EXPECT_EQ(first.fields[1].count, 7);
  EXPECT_EQ(first.fields[1].dtype, DataType::kU8);
  const Batch second = memory.Resize(2);
  EXPECT_EQ(second.size, 2);
  EXPECT_EQ(second.fields[0].count, 30);
  for (int f = 0; f < 2; ++f) {
    EXPECT_EQ(first.fields[f].data, second.fields[f].data);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.fields[f].data) % AlignedMemory::kAlignment, 0u);
  }
}

TEST(FieldTest, AScalarHasOneElement) {
  EXPECT_EQ(Field({"label", DataType::kI32, {}}).elements(), 1);
  EXPECT_EQ(Field({"image", DataType::kF32, {28, 28}}).elements(), 784);
}

}  // namespace
}  // namespace muster

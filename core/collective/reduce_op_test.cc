#include "muster/core/collective/reduce_op.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "muster/core/collective/data_type.h"

namespace muster {
namespace {

TEST(ReduceOpTest, OnlyTheAverageOfIntegersIsRefused) {
  for (ReduceOp op : kAllReduceOps) {
    for (DataType dtype : kAllDataTypes) {
      const absl::Status status = CheckReduction(op, dtype);
      if (op == ReduceOp::kAverage && IsInteger(dtype)) {
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << Name(op) << Name(dtype);
      } else {
        EXPECT_TRUE(status.ok()) << status;
      }
    }
  }
}

TEST(ReduceOpTest, TheRefusalSaysWhatToDo) {
  EXPECT_EQ(CheckReduction(ReduceOp::kAverage, DataType::kI32).message(),
            "the average of i32 is not defined: take the sum and divide it as you need it rounded, "
            "or use a floating-point type");
}

TEST(ReduceOpTest, NamesAreThoseOfTheField) {
  EXPECT_EQ(Name(ReduceOp::kSum), "sum");
  EXPECT_EQ(Name(ReduceOp::kProduct), "product");
  EXPECT_EQ(Name(ReduceOp::kMin), "min");
  EXPECT_EQ(Name(ReduceOp::kMax), "max");
  EXPECT_EQ(Name(ReduceOp::kAverage), "average");
}

}  // namespace
}  // namespace muster

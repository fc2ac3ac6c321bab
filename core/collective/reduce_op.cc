#include "muster/core/collective/reduce_op.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "muster/core/collective/data_type.h"

namespace muster {

absl::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAverage:
      return "average";
  }
  return "unknown";
}

absl::Status CheckReduction(ReduceOp op, DataType dtype) {
  if (op == ReduceOp::kAverage && IsInteger(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the average of ", Name(dtype),
                     " is not defined: take the sum and divide it as you need it rounded, or use a "
                     "floating-point type"));
  }
  return absl::OkStatus();
}

}  // namespace muster

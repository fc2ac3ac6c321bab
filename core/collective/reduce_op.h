// How a reduction combines elements.
#ifndef MUSTER_CORE_COLLECTIVE_REDUCE_OP_H_
#define MUSTER_CORE_COLLECTIVE_REDUCE_OP_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "muster/core/collective/data_type.h"

namespace muster {

enum class ReduceOp { kSum, kProduct, kMin, kMax, kAverage };

inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin,
                                             ReduceOp::kMax, ReduceOp::kAverage};

// "sum", "product", "min", "max", "average".
absl::string_view Name(ReduceOp op);

// InvalidArgument for the average of integers, which has no answer that all backends share.
absl::Status CheckReduction(ReduceOp op, DataType dtype);

}  // namespace muster

#endif  // MUSTER_CORE_COLLECTIVE_REDUCE_OP_H_

// Plain loops that combine elements: the arithmetic that all CPU backends share, so that they agree
// on it.
//
//   Accumulator sum(count, DataType::kBF16, ReduceOp::kAverage);
//   for (const void* values : of_every_rank) sum.Add(values);
//   sum.Finish(out, /*divisor=*/size);
//
// What is promised, for every backend that uses them:
//  - Integer sums and products wrap around (two's complement).
//  - f16 and bf16 are widened to f32, combined there and rounded once, by Finish. f32 and f64 are
//    combined as they are.
//  - The minimum and the maximum of anything and a NaN is a NaN (IEEE 754-2019 minimum and maximum,
//    not fmin and fmax), so the result does not depend on the order of the ranks. Which NaN, and
//    which zero of +0 and -0, is not promised.
//  - kAverage is the sum, divided once at the end.
#ifndef MUSTER_CORE_COLLECTIVE_REDUCTION_H_
#define MUSTER_CORE_COLLECTIVE_REDUCTION_H_

#include <cstdint>
#include <memory>

#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"

namespace muster {

// accumulator[i] = accumulator[i] op in[i], for `count` elements of `dtype`; kAverage adds. Both
// are aligned to the size of an element and either the same memory or apart. f16 and bf16 are
// rounded in each call: with more than two inputs use Accumulator.
void ReduceInto(void* accumulator, const void* in, int64_t count, DataType dtype, ReduceOp op);

// data[i] /= divisor, for the floating-point types (f16 and bf16 by way of f32). Integers stay as
// they are.
void DivideBy(void* data, int64_t count, DataType dtype, int64_t divisor);

// out[i] = the f32 value of in[i], and back, rounded to nearest even. `dtype` is kF16 or kBF16.
void Widen(const void* in, int64_t count, DataType dtype, float* out);
void Narrow(const float* in, int64_t count, DataType dtype, void* out);

// Combines any number of inputs. Not thread-safe.
class Accumulator {
 public:
  Accumulator(int64_t count, DataType dtype, ReduceOp op);

  // The first input is taken as it is. `in` is `count` elements of `dtype`.
  void Add(const void* in);
  // Writes the result, for kAverage divided by `divisor`, as `count` elements of `dtype`. Once,
  // after the first Add. `out` may be one of the inputs.
  void Finish(void* out, int64_t divisor);

 private:
  const int64_t count_;
  const DataType dtype_;
  const ReduceOp op_;
  const bool widened_;
  bool empty_ = true;
  std::unique_ptr<char[]> values_;    // of f32 when widened, else of dtype
  std::unique_ptr<float[]> scratch_;  // the input, widened
};

}  // namespace muster

#endif  // MUSTER_CORE_COLLECTIVE_REDUCTION_H_

// Values of any type for the checks of backend_conformance.h.
#ifndef MUSTER_TESTING_BACKEND_CONFORMANCE_TENSOR_H_
#define MUSTER_TESTING_BACKEND_CONFORMANCE_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"

namespace muster::testing::conformance {

// `count` elements between two margins that nobody may write to. A value type.
class Tensor {
 public:
  Tensor(DataType dtype, int64_t count);

  int64_t count() const { return count_; }
  Buffer buffer() { return {bytes_.data() + kMargin, count_, dtype_, Device::Cpu()}; }
  // The elements as they lie in memory.
  absl::string_view bytes() const;

  double Get(int64_t i) const;
  void Set(int64_t i, double value);
  // Every byte of the elements.
  void Fill(char byte);

  // Broken when a margin was written to.
  absl::Status CheckMargins() const;

 private:
  static constexpr size_t kMargin = 64;

  DataType dtype_;
  int64_t count_;
  std::vector<char> bytes_;
};

// What `rank` gives as element i: small whole numbers that depend on both, such that every sum and
// product over up to 8 ranks is exact in every type.
double InputFor(ReduceOp op, DataType dtype, int rank, int64_t i);
// What those of `size` ranks reduce to.
double ExpectedOf(ReduceOp op, DataType dtype, int size, int64_t i);
// Whether `seen` is `expected`; a little apart for averages, which divide.
bool Agree(double seen, double expected, ReduceOp op, DataType dtype);

// An element that tells rank and place, for what only moves.
double Marked(int rank, int64_t i);

// Broken where element i of `tensor` is not expected(i).
template <class Expected>
absl::Status ExpectElements(const Tensor& tensor, DataType dtype, Expected expected);

absl::Status WrongElement(int64_t i, double seen, double expected);

template <class Expected>
absl::Status ExpectElements(const Tensor& tensor, DataType dtype, Expected expected) {
  // A value that went through `dtype`, as the element did.
  Tensor rounded(dtype, 1);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    rounded.Set(0, expected(i));
    if (tensor.Get(i) != rounded.Get(0)) return WrongElement(i, tensor.Get(i), rounded.Get(0));
  }
  return tensor.CheckMargins();
}

}  // namespace muster::testing::conformance

#endif  // MUSTER_TESTING_BACKEND_CONFORMANCE_TENSOR_H_

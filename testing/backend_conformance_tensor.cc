#include "muster/testing/backend_conformance_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster::testing::conformance {
namespace {

constexpr char kMarginByte = 0x5a;

template <class T>
double Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return static_cast<double>(value);
}

template <class T>
void Store(T value, char* at) {
  std::memcpy(at, &value, sizeof(value));
}

}  // namespace

Tensor::Tensor(DataType dtype, int64_t count)
    : dtype_(dtype),
      count_(count),
      bytes_(2 * kMargin + static_cast<size_t>(count * SizeOf(dtype)), kMarginByte) {
  Fill(0);
}

absl::string_view Tensor::bytes() const {
  return absl::string_view(bytes_.data() + kMargin, bytes_.size() - 2 * kMargin);
}

void Tensor::Fill(char byte) { std::fill(bytes_.begin() + kMargin, bytes_.end() - kMargin, byte); }

double Tensor::Get(int64_t i) const {
  const char* const at = bytes_.data() + kMargin + i * SizeOf(dtype_);
  switch (dtype_) {
    case DataType::kF16: {
      Float16 value;
      std::memcpy(&value, at, sizeof(value));
      return ToFloat(value);
    }
    case DataType::kBF16: {
      BFloat16 value;
      std::memcpy(&value, at, sizeof(value));
      return ToFloat(value);
    }
    case DataType::kF32:
      return Load<float>(at);
    case DataType::kF64:
      return Load<double>(at);
    case DataType::kI8:
      return Load<int8_t>(at);
    case DataType::kU8:
      return Load<uint8_t>(at);
    case DataType::kI32:
      return Load<int32_t>(at);
    case DataType::kI64:
      return Load<int64_t>(at);
  }
  return 0;
}

void Tensor::Set(int64_t i, double value) {
  char* const at = bytes_.data() + kMargin + i * SizeOf(dtype_);
  const int64_t whole = IsInteger(dtype_) ? static_cast<int64_t>(value) : 0;
  switch (dtype_) {
    case DataType::kF16:
      return Store(ToFloat16(static_cast<float>(value)), at);
    case DataType::kBF16:
      return Store(ToBFloat16(static_cast<float>(value)), at);
    case DataType::kF32:
      return Store(static_cast<float>(value), at);
    case DataType::kF64:
      return Store(value, at);
    case DataType::kI8:
      return Store(static_cast<int8_t>(whole), at);
    case DataType::kU8:
      return Store(static_cast<uint8_t>(whole), at);
    case DataType::kI32:
      return Store(static_cast<int32_t>(whole), at);
    case DataType::kI64:
      return Store(whole, at);
  }
}

absl::Status Tensor::CheckMargins() const {
  const auto untouched = [](char byte) { return byte == kMarginByte; };
  if (std::all_of(bytes_.begin(), bytes_.begin() + kMargin, untouched) &&
      std::all_of(bytes_.end() - kMargin, bytes_.end(), untouched)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError("memory beside the buffer was written to");
}

double InputFor(ReduceOp op, DataType dtype, int rank, int64_t i) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return static_cast<double>((rank + 1) * (i % 4) + i % 3);
    case ReduceOp::kProduct: {
      const double sign = (rank == 0 && i % 2 == 1 && dtype != DataType::kU8) ? -1 : 1;
      return sign * ((rank + i) % 3 == 0 ? 2 : 1);
    }
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return static_cast<double>((int64_t{rank} * 7 + i * 5) % 11) -
             (dtype == DataType::kU8 ? 0 : 4);
  }
  return 0;
}

double ExpectedOf(ReduceOp op, DataType dtype, int size, int64_t i) {
  double result = InputFor(op, dtype, 0, i);
  for (int rank = 1; rank < size; ++rank) {
    const double value = InputFor(op, dtype, rank, i);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += value;
        break;
      case ReduceOp::kProduct:
        result *= value;
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
    }
  }
  return op == ReduceOp::kAverage ? result / size : result;
}

bool Agree(double seen, double expected, ReduceOp op, DataType dtype) {
  if (op != ReduceOp::kAverage) return seen == expected;
  double epsilon = 1e-14;
  if (dtype == DataType::kF32) epsilon = 1e-6;
  if (dtype == DataType::kF16) epsilon = 1e-3;
  if (dtype == DataType::kBF16) epsilon = 1e-2;
  return std::abs(seen - expected) <= epsilon * std::abs(expected);
}

double Marked(int rank, int64_t i) { return static_cast<double>((int64_t{rank} * 31 + i) % 101); }

absl::Status WrongElement(int64_t i, double seen, double expected) {
  return absl::FailedPreconditionError(
      absl::StrCat("element ", i, " is ", seen, ", not ", expected));
}

}  // namespace muster::testing::conformance

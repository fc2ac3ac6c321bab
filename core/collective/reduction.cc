#include "muster/core/collective/reduction.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"

namespace muster {
namespace {

// The type in which T's sums and products are computed. Overflow of signed integers is undefined,
// so they go through unsigned ones, which wrap around; int is as wide as two small ones need.
template <class T, class = void>
struct Arithmetic {
  using Type = T;
};
template <class T>
struct Arithmetic<T, std::enable_if_t<std::is_integral_v<T>>> {
  using Type = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
};

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    using A = typename Arithmetic<T>::Type;
    return static_cast<T>(static_cast<A>(a) + static_cast<A>(b));
  }
};

struct Product {
  template <class T>
  T operator()(T a, T b) const {
    using A = typename Arithmetic<T>::Type;
    return static_cast<T>(static_cast<A>(a) * static_cast<A>(b));
  }
};

// A NaN in `a` fails both comparisons and stays; one in `b` is recognised by b != b.
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return (b < a || b != b) ? b : a;  // NOLINT(misc-redundant-expression)
  }
};

struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return (b > a || b != b) ? b : a;  // NOLINT(misc-redundant-expression)
  }
};

template <class T, class Op>
void Combine(T* accumulator, const T* in, int64_t count, Op op) {
  for (int64_t i = 0; i < count; ++i) accumulator[i] = op(accumulator[i], in[i]);
}

template <class T>
void CombineAs(void* accumulator, const void* in, int64_t count, ReduceOp op) {
  T* const a = static_cast<T*>(accumulator);
  const T* const b = static_cast<const T*>(in);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return Combine(a, b, count, Sum());
    case ReduceOp::kProduct:
      return Combine(a, b, count, Product());
    case ReduceOp::kMin:
      return Combine(a, b, count, Min());
    case ReduceOp::kMax:
      return Combine(a, b, count, Max());
  }
}

template <class Half>
Half Rounded(float value) {
  if constexpr (std::is_same_v<Half, Float16>) {
    return ToFloat16(value);
  } else {
    return ToBFloat16(value);
  }
}

template <class Half>
void CombineHalvesAs(void* accumulator, const void* in, int64_t count, ReduceOp op) {
  Half* const a = static_cast<Half*>(accumulator);
  const Half* const b = static_cast<const Half*>(in);
  for (int64_t i = 0; i < count; ++i) {
    float value = ToFloat(a[i]);
    const float other = ToFloat(b[i]);
    CombineAs<float>(&value, &other, 1, op);
    a[i] = Rounded<Half>(value);
  }
}

template <class T>
void DivideAs(void* data, int64_t count, int64_t divisor) {
  T* const values = static_cast<T*>(data);
  for (int64_t i = 0; i < count; ++i) values[i] /= static_cast<T>(divisor);
}

template <class Half>
void DivideHalvesAs(void* data, int64_t count, int64_t divisor) {
  Half* const values = static_cast<Half*>(data);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = Rounded<Half>(ToFloat(values[i]) / static_cast<float>(divisor));
  }
}

bool IsHalf(DataType dtype) { return dtype == DataType::kF16 || dtype == DataType::kBF16; }

}  // namespace

void ReduceInto(void* accumulator, const void* in, int64_t count, DataType dtype, ReduceOp op) {
  switch (dtype) {
    case DataType::kF16:
      return CombineHalvesAs<Float16>(accumulator, in, count, op);
    case DataType::kBF16:
      return CombineHalvesAs<BFloat16>(accumulator, in, count, op);
    case DataType::kF32:
      return CombineAs<float>(accumulator, in, count, op);
    case DataType::kF64:
      return CombineAs<double>(accumulator, in, count, op);
    case DataType::kI8:
      return CombineAs<int8_t>(accumulator, in, count, op);
    case DataType::kU8:
      return CombineAs<uint8_t>(accumulator, in, count, op);
    case DataType::kI32:
      return CombineAs<int32_t>(accumulator, in, count, op);
    case DataType::kI64:
      return CombineAs<int64_t>(accumulator, in, count, op);
  }
}

void DivideBy(void* data, int64_t count, DataType dtype, int64_t divisor) {
  switch (dtype) {
    case DataType::kF16:
      return DivideHalvesAs<Float16>(data, count, divisor);
    case DataType::kBF16:
      return DivideHalvesAs<BFloat16>(data, count, divisor);
    case DataType::kF32:
      return DivideAs<float>(data, count, divisor);
    case DataType::kF64:
      return DivideAs<double>(data, count, divisor);
    case DataType::kI8:
    case DataType::kU8:
    case DataType::kI32:
    case DataType::kI64:
      return;
  }
}

void Widen(const void* in, int64_t count, DataType dtype, float* out) {
  if (dtype == DataType::kF16) {
    const Float16* const values = static_cast<const Float16*>(in);
    for (int64_t i = 0; i < count; ++i) out[i] = ToFloat(values[i]);
  } else {
    const BFloat16* const values = static_cast<const BFloat16*>(in);
    for (int64_t i = 0; i < count; ++i) out[i] = ToFloat(values[i]);
  }
}

void Narrow(const float* in, int64_t count, DataType dtype, void* out) {
  if (dtype == DataType::kF16) {
    Float16* const values = static_cast<Float16*>(out);
    for (int64_t i = 0; i < count; ++i) values[i] = ToFloat16(in[i]);
  } else {
    BFloat16* const values = static_cast<BFloat16*>(out);
    for (int64_t i = 0; i < count; ++i) values[i] = ToBFloat16(in[i]);
  }
}

Accumulator::Accumulator(int64_t count, DataType dtype, ReduceOp op)
    : count_(count),
      dtype_(dtype),
      op_(op),
      widened_(IsHalf(dtype)),
      values_(new char[static_cast<size_t>(count) *
                       (widened_ ? sizeof(float) : static_cast<size_t>(SizeOf(dtype)))]),
      scratch_(widened_ ? new float[static_cast<size_t>(count)] : nullptr) {}

void Accumulator::Add(const void* in) {
  float* const wide = reinterpret_cast<float*>(values_.get());
  if (empty_) {
    empty_ = false;
    if (widened_) {
      Widen(in, count_, dtype_, wide);
    } else if (count_ > 0) {
      std::memcpy(values_.get(), in, static_cast<size_t>(count_ * SizeOf(dtype_)));
    }
    return;
  }
  if (widened_) {
    Widen(in, count_, dtype_, scratch_.get());
    ReduceInto(wide, scratch_.get(), count_, DataType::kF32, op_);
  } else {
    ReduceInto(values_.get(), in, count_, dtype_, op_);
  }
}

void Accumulator::Finish(void* out, int64_t divisor) {
  if (op_ == ReduceOp::kAverage) {
    DivideBy(values_.get(), count_, widened_ ? DataType::kF32 : dtype_, divisor);
  }
  if (widened_) {
    Narrow(reinterpret_cast<const float*>(values_.get()), count_, dtype_, out);
  } else if (count_ > 0) {
    std::memcpy(out, values_.get(), static_cast<size_t>(count_ * SizeOf(dtype_)));
  }
}

}  // namespace muster

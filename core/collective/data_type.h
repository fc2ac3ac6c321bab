// Element types of collectives, and how to name and measure them.
#ifndef MUSTER_CORE_COLLECTIVE_DATA_TYPE_H_
#define MUSTER_CORE_COLLECTIVE_DATA_TYPE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster {

enum class DataType { kF16, kBF16, kF32, kF64, kI8, kU8, kI32, kI64 };

inline constexpr DataType kAllDataTypes[] = {DataType::kF16, DataType::kBF16, DataType::kF32,
                                             DataType::kF64, DataType::kI8,   DataType::kU8,
                                             DataType::kI32, DataType::kI64};

// Bytes of one element.
int64_t SizeOf(DataType dtype);
// "f16", "bf16", "f32", "f64", "i8", "u8", "i32", "i64".
absl::string_view Name(DataType dtype);
bool IsInteger(DataType dtype);

// IEEE binary16 and bfloat16 as storage. Conversions round to nearest even; NaN stays NaN.
struct Float16 {
  uint16_t bits = 0;
};
struct BFloat16 {
  uint16_t bits = 0;
};
float ToFloat(Float16 value);
float ToFloat(BFloat16 value);
Float16 ToFloat16(float value);
BFloat16 ToBFloat16(float value);

// The DataType of a C++ type. Other types do not compile: a backend reduces these alone.
template <class T>
constexpr DataType DataTypeOf() {
  static_assert(sizeof(T) == 0,
                "muster moves Float16, BFloat16, float, double, int8_t, uint8_t, int32_t and "
                "int64_t: give bool and char as uint8_t, and an unsigned type as the signed one of "
                "its size where no value is beyond that one");
  return DataType::kU8;
}
template <>
constexpr DataType DataTypeOf<Float16>() {
  return DataType::kF16;
}
template <>
constexpr DataType DataTypeOf<BFloat16>() {
  return DataType::kBF16;
}
template <>
constexpr DataType DataTypeOf<float>() {
  return DataType::kF32;
}
template <>
constexpr DataType DataTypeOf<double>() {
  return DataType::kF64;
}
template <>
constexpr DataType DataTypeOf<int8_t>() {
  return DataType::kI8;
}
template <>
constexpr DataType DataTypeOf<uint8_t>() {
  return DataType::kU8;
}
template <>
constexpr DataType DataTypeOf<int32_t>() {
  return DataType::kI32;
}
template <>
constexpr DataType DataTypeOf<int64_t>() {
  return DataType::kI64;
}

}  // namespace muster

#endif  // MUSTER_CORE_COLLECTIVE_DATA_TYPE_H_

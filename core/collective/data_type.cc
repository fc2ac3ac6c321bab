#include "muster/core/collective/data_type.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace muster {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// `value` without its lowest `drop` bits, rounded to nearest, ties to even. 0 < drop < 32.
uint32_t RoundOff(uint32_t value, int drop) {
  const uint32_t kept = value >> drop;
  const uint32_t rest = value & ((1u << drop) - 1);
  const uint32_t half = 1u << (drop - 1);
  return kept + ((rest > half || (rest == half && (kept & 1) != 0)) ? 1 : 0);
}

}  // namespace

int64_t SizeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kI8:
    case DataType::kU8:
      return 1;
    case DataType::kF16:
    case DataType::kBF16:
      return 2;
    case DataType::kF32:
    case DataType::kI32:
      return 4;
    case DataType::kF64:
    case DataType::kI64:
      return 8;
  }
  return 0;
}

absl::string_view Name(DataType dtype) {
  switch (dtype) {
    case DataType::kF16:
      return "f16";
    case DataType::kBF16:
      return "bf16";
    case DataType::kF32:
      return "f32";
    case DataType::kF64:
      return "f64";
    case DataType::kI8:
      return "i8";
    case DataType::kU8:
      return "u8";
    case DataType::kI32:
      return "i32";
    case DataType::kI64:
      return "i64";
  }
  return "unknown";
}

bool IsInteger(DataType dtype) {
  return dtype == DataType::kI8 || dtype == DataType::kU8 || dtype == DataType::kI32 ||
         dtype == DataType::kI64;
}

float ToFloat(Float16 value) {
  const uint32_t sign = (value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t fraction = value.bits & 0x3ffu;
  if (exponent == 0x1f) return FloatOf(sign | 0x7f800000u | (fraction << 13));  // infinity, NaN
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24, exact in f32
    const float magnitude = static_cast<float>(fraction) * (1.0f / (1 << 24));
    return FloatOf(sign | BitsOf(magnitude));
  }
  return FloatOf(sign | ((exponent + (127 - 15)) << 23) | (fraction << 13));
}

float ToFloat(BFloat16 value) { return FloatOf(static_cast<uint32_t>(value.bits) << 16); }

Float16 ToFloat16(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t result;
  if (magnitude > 0x7f800000u) {
    // NaN: the upper payload bits stay; the quiet bit keeps the fraction from becoming an
    // infinity's.
    result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {
    result = 0x7c00u;  // 65536 and more
  } else if (magnitude >= 0x38800000u) {
    // Normal, from 2^-14. Rounding may carry into the exponent, up to infinity: that is the right
    // answer.
    result = RoundOff(magnitude - ((127u - 15u) << 23), 13);
  } else if (magnitude >= 0x33000000u) {
    // Subnormal, from 2^-25 (which rounds to even, to zero).
    const uint32_t exponent = magnitude >> 23;
    const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    result = RoundOff(significand, static_cast<int>(126u - exponent));
  } else {
    result = 0;
  }
  return Float16{static_cast<uint16_t>(sign | result)};
}

BFloat16 ToBFloat16(float value) {
  const uint32_t bits = BitsOf(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return BFloat16{static_cast<uint16_t>((bits >> 16) | 0x40u)};  // NaN, made quiet
  }
  return BFloat16{static_cast<uint16_t>(RoundOff(bits, 16))};
}

}  // namespace muster

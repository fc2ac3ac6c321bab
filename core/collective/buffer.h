// A typed view of the caller's memory. Nothing here owns or copies.
#ifndef MUSTER_CORE_COLLECTIVE_BUFFER_H_
#define MUSTER_CORE_COLLECTIVE_BUFFER_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/types/span.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/device.h"

namespace muster {

// `count` elements of `dtype`, contiguous at `data` on `device`. A value type; the caller keeps the
// memory alive and untouched until the operation on it has returned (blocking) or its Work is
// terminal (asynchronous).
struct ConstBuffer {
  const void* data = nullptr;
  int64_t count = 0;  // elements
  DataType dtype = DataType::kF32;
  Device device = Device::Cpu();

  template <class T>
  static ConstBuffer Of(absl::Span<const T> values) {
    return {values.data(), static_cast<int64_t>(values.size()), DataTypeOf<T>(), Device::Cpu()};
  }
  // One element, which has a name: a temporary would be gone before the operation.
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  static ConstBuffer Of(const T& value) {
    return Of(absl::Span<const T>(&value, 1));
  }
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  static ConstBuffer Of(const T&& value) = delete;

  int64_t bytes() const { return count * SizeOf(dtype); }
  // Elements [offset, offset + slice_count).
  ConstBuffer Slice(int64_t offset, int64_t slice_count) const;
  std::string ToString() const;  // "f32[1024] on cpu"
};

struct Buffer {
  void* data = nullptr;
  int64_t count = 0;  // elements
  DataType dtype = DataType::kF32;
  Device device = Device::Cpu();

  template <class T>
  static Buffer Of(absl::Span<T> values) {
    static_assert(!std::is_const_v<T>, "use ConstBuffer::Of for what is only read");
    return {values.data(), static_cast<int64_t>(values.size()), DataTypeOf<T>(), Device::Cpu()};
  }
  // One element.
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T> && !std::is_const_v<T>>>
  static Buffer Of(T& value) {
    return Of(absl::Span<T>(&value, 1));
  }

  int64_t bytes() const { return count * SizeOf(dtype); }
  // Implicit, as T* converts to const T*.
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator ConstBuffer() const { return {data, count, dtype, device}; }
  // Elements [offset, offset + slice_count).
  Buffer Slice(int64_t offset, int64_t slice_count) const;
  std::string ToString() const;  // "f32[1024] on cpu"
};

}  // namespace muster

#endif  // MUSTER_CORE_COLLECTIVE_BUFFER_H_

#include "muster/core/collective/buffer.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "muster/core/collective/data_type.h"

namespace muster {

ConstBuffer ConstBuffer::Slice(int64_t offset, int64_t slice_count) const {
  return {static_cast<const char*>(data) + offset * SizeOf(dtype), slice_count, dtype, device};
}

std::string ConstBuffer::ToString() const {
  return absl::StrCat(Name(dtype), "[", count, "] on ", device.ToString());
}

Buffer Buffer::Slice(int64_t offset, int64_t slice_count) const {
  return {static_cast<char*>(data) + offset * SizeOf(dtype), slice_count, dtype, device};
}

std::string Buffer::ToString() const { return ConstBuffer(*this).ToString(); }

}  // namespace muster

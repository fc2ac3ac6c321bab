#include "muster/trainer/data.h"

#include <cassert>
#include <cstddef>

namespace muster {

int64_t Field::elements() const {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

Subset::Subset(Dataset& all, int64_t begin, int64_t size) : all_(all), begin_(begin), size_(size) {
  assert(begin >= 0 && size >= 0 && begin + size <= all.size());
}

absl::Status Subset::Read(absl::Span<const int64_t> indices, Batch& batch) {
  shifted_.assign(indices.begin(), indices.end());
  for (int64_t& index : shifted_) index += begin_;
  return all_.Read(shifted_, batch);
}

BatchMemory::BatchMemory(absl::Span<const Field> fields, int64_t capacity) {
  for (const Field& field : fields) {
    elements_.push_back(field.elements());
    memory_.emplace_back(capacity * field.elements() * SizeOf(field.dtype));
    batch_.fields.push_back(Buffer{memory_.back().data(), 0, field.dtype, Device::Cpu()});
  }
}

Batch& BatchMemory::Resize(int64_t size) {
  batch_.size = size;
  for (size_t f = 0; f < elements_.size(); ++f) batch_.fields[f].count = size * elements_[f];
  return batch_;
}

}  // namespace muster

#include "muster/trainer/bucket_layout.h"

#include "absl/strings/str_cat.h"
#include "muster/trainer/aligned_memory.h"

namespace muster {

absl::Status BucketSizes::Validate() const {
  if (bucket_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("bucket_bytes is ", bucket_bytes, ": give at least 1"));
  }
  if (first_bucket_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_bucket_bytes is ", first_bucket_bytes, ": give at least 1"));
  }
  return absl::OkStatus();
}

BucketLayout BucketLayout::Plan(absl::Span<const Parameter> parameters, const BucketSizes& sizes) {
  BucketLayout layout;
  layout.slots.resize(parameters.size());
  for (int i = static_cast<int>(parameters.size()) - 1; i >= 0; --i) {
    const DataType dtype = parameters[i].data.dtype;
    const int64_t bytes = AlignedMemory::RoundUp(parameters[i].data.bytes());
    const int64_t limit =
        layout.buckets.size() == 1 ? sizes.first_bucket_bytes : sizes.bucket_bytes;
    if (layout.buckets.empty() || layout.buckets.back().dtype != dtype ||
        layout.buckets.back().count * SizeOf(dtype) + bytes > limit) {
      layout.buckets.push_back(Bucket{dtype, 0, {}});
    }
    Bucket& bucket = layout.buckets.back();
    layout.slots[i] = Slot{static_cast<int>(layout.buckets.size()) - 1, bucket.count};
    bucket.parameters.push_back(i);
    bucket.count += bytes / SizeOf(dtype);
  }
  return layout;
}

}  // namespace muster

#include "muster/trainer/reducer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace muster {

Reducer::Reducer(Collectives& collectives, absl::Span<const Parameter> parameters,
                 const BucketSizes& sizes)
    : collectives_(collectives), layout_(BucketLayout::Plan(parameters, sizes)) {
  for (const BucketLayout::Bucket& bucket : layout_.buckets) {
    memory_.emplace_back(bucket.count * SizeOf(bucket.dtype));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const BucketLayout::Slot& slot = layout_.slots[i];
    names_.push_back(parameters[i].name);
    gradients_.push_back(BucketBuffer(slot.bucket).Slice(slot.offset, parameters[i].data.count));
  }
  works_.reserve(layout_.buckets.size());
  StartStep();
}

Buffer Reducer::BucketBuffer(int bucket) const {
  return Buffer{memory_[bucket].data(), layout_.buckets[bucket].count,
                layout_.buckets[bucket].dtype, Device::Cpu()};
}

void Reducer::StartStep() {
  works_.clear();
  misuse_ = absl::OkStatus();
  ready_.assign(names_.size(), false);
  missing_.clear();
  for (const BucketLayout::Bucket& bucket : layout_.buckets) {
    missing_.push_back(static_cast<int>(bucket.parameters.size()));
  }
}

void Reducer::Ready(int index, const Buffer& gradient) {
  if (!misuse_.ok()) return;
  if (index < 0 || index >= static_cast<int>(names_.size())) {
    misuse_ = absl::InvalidArgumentError(
        absl::StrCat("the module announced the gradient of parameter ", index, ": it has 0 to ",
                     static_cast<int>(names_.size()) - 1));
    return;
  }
  const Buffer& place = gradients_[index];
  if (ready_[index]) {
    misuse_ = absl::InvalidArgumentError(
        absl::StrCat("the module announced the gradient of ", names_[index],
                     " twice in one step: announce it once, when it is complete"));
    return;
  }
  if (gradient.count != place.count || gradient.dtype != place.dtype) {
    misuse_ = absl::InvalidArgumentError(absl::StrCat("the gradient of ", names_[index], " is ",
                                                      gradient.ToString(), " and its parameter is ",
                                                      place.ToString()));
    return;
  }
  if (gradient.data != place.data) {
    std::memcpy(place.data, gradient.data, static_cast<size_t>(place.bytes()));
  }
  ready_[index] = true;
  --missing_[layout_.slots[index].bucket];
  // In the order of the layout: a bucket that is complete early waits for its turn.
  while (works_.size() < missing_.size() && missing_[works_.size()] == 0) {
    works_.push_back(collectives_.size() == 1
                         ? Work()  // the average over one rank is there already
                         : collectives_.AllReduceAsync(
                               BucketBuffer(static_cast<int>(works_.size())), ReduceOp::kAverage));
  }
}

absl::Status Reducer::FinishStep() {
  if (!misuse_.ok()) return misuse_;
  for (size_t i = 0; i < ready_.size(); ++i) {
    if (!ready_[i]) {
      return absl::InvalidArgumentError(
          absl::StrCat("the module's step ended without the gradient of ", names_[i],
                       ": announce every parameter's in every step, zeros where it was not used"));
    }
  }
  for (Work& work : works_) {
    absl::Status status = work.Wait();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace muster

#include "muster/trainer/distributed_sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "muster/core/platform/split_mix64.h"

namespace muster {
absl::StatusOr<DistributedSampler> DistributedSampler::Create(const SamplerOptions& options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " is not in a world of ", options.world_size));
  }
  if (options.size < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a data set of ", options.size, " samples"));
  }
  if (options.remainder == Remainder::kPad && options.size == 0) {
    return absl::InvalidArgumentError("the data set is empty: there is nothing to train on");
  }
  if (options.remainder == Remainder::kDrop && options.size < options.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the data set has ", options.size, " samples for ", options.world_size,
                     " ranks and the remainder is dropped, which leaves none: use fewer ranks or "
                     "Remainder::kPad"));
  }
  return DistributedSampler(options);
}

DistributedSampler::DistributedSampler(const SamplerOptions& options) : options_(options) {
  SetEpoch(0);
}

void DistributedSampler::SetEpoch(int64_t epoch) {
  permutation_.resize(options_.size);
  std::iota(permutation_.begin(), permutation_.end(), int64_t{0});
  if (options_.shuffle) {
    // The epoch goes through the generator too: seed 1 in epoch 2 is not seed 2 in epoch 1.
    SplitMix64 random(SplitMix64(options_.seed).Next() ^ static_cast<uint64_t>(epoch));
    for (int64_t i = options_.size - 1; i > 0; --i) {
      std::swap(permutation_[i], permutation_[random.Below(i + 1)]);
    }
  }
  const int64_t size = options_.size;
  const int64_t world = options_.world_size;
  int64_t entries = size;  // of all ranks, in the permutation repeated without end
  if (options_.remainder == Remainder::kPad) entries = (size + world - 1) / world * world;
  if (options_.remainder == Remainder::kDrop) entries = size / world * world;
  indices_.clear();
  for (int64_t i = options_.rank; i < entries; i += world) {
    indices_.push_back(permutation_[i % size]);
  }
}

int64_t DistributedSampler::batches(int64_t batch_size) const {
  // Not (size + batch_size - 1) / batch_size: INT64_MAX is a batch size that means "all in one".
  const int64_t size = static_cast<int64_t>(indices_.size());
  return size / batch_size + (size % batch_size != 0 ? 1 : 0);
}

absl::Span<const int64_t> DistributedSampler::batch(int64_t number, int64_t batch_size) const {
  return indices().subspan(number * batch_size, batch_size);
}

}  // namespace muster

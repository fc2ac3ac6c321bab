// Which samples this rank takes in this epoch.
//
// Every rank makes the same permutation from (seed, epoch), without a word to the others, and takes
// every world-th entry from its own number on: entries r, r + W, r + 2W, ... Step s of all ranks
// together is then one contiguous piece of the permutation, the same piece that a single rank with
// the W-fold batch would take: the number of ranks does not change what is learnt.
#ifndef MUSTER_TRAINER_DISTRIBUTED_SAMPLER_H_
#define MUSTER_TRAINER_DISTRIBUTED_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

// What to do with a number of samples that the ranks cannot share equally.
enum class Remainder {
  // Training: the permutation starts again until every rank has as many. Each sample is seen at
  // least once; with at least one sample a rank, at most world - 1 of them are seen twice (more
  // often when there are fewer samples than ranks).
  kPad,
  // Training: the last size % world entries of the permutation are left out in this epoch; other
  // epochs leave out others.
  kDrop,
  // Evaluation: each sample exactly once. Some ranks have one less, or none; so no collective may
  // depend on the number of batches.
  kExact,
};

struct SamplerOptions {
  int64_t size = 0;  // samples in the data set
  int rank = 0;
  int world_size = 1;
  uint64_t seed = 0;
  bool shuffle = true;
  Remainder remainder = Remainder::kPad;
};

class DistributedSampler {
 public:
  // InvalidArgument: negative size, rank outside of the world; kPad with no sample at all, kDrop
  // with fewer samples than ranks.
  static absl::StatusOr<DistributedSampler> Create(const SamplerOptions& options);

  // Makes the entries of `epoch` (epoch 0 from the start).
  void SetEpoch(int64_t epoch);

  // This rank's samples in order. Valid until the next SetEpoch.
  absl::Span<const int64_t> indices() const { return indices_; }

  // indices().size() divided into batches of `batch_size`, the last one possibly smaller.
  int64_t batches(int64_t batch_size) const;
  // Batch `number` of them.
  absl::Span<const int64_t> batch(int64_t number, int64_t batch_size) const;

 private:
  explicit DistributedSampler(const SamplerOptions& options);

  SamplerOptions options_;
  std::vector<int64_t> permutation_;
  std::vector<int64_t> indices_;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_DISTRIBUTED_SAMPLER_H_

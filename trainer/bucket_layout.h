// Which gradients travel together.
//
// An all-reduce has a fixed cost whatever its size, so small gradients share one; and it can start
// only when all of its gradients are complete, so one bucket for everything would hide nothing
// behind the backward pass. The layout is a pure function of the parameters and the two sizes:
// every rank makes the same one (and parameter_agreement.h checks that it did).
#ifndef MUSTER_TRAINER_BUCKET_LAYOUT_H_
#define MUSTER_TRAINER_BUCKET_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "muster/core/collective/data_type.h"
#include "muster/trainer/module.h"

namespace muster {

struct BucketSizes {
  // Gloo over loopback takes about 0.15 ms for up to 64 KiB, and 0.7 ms for 1 MiB: with 1 MiB the
  // fixed part is a fifth, and larger buckets would save less than they delay.
  int64_t bucket_bytes = int64_t{1} << 20;
  // Up to here an all-reduce is almost free: the last layers' gradients, which are complete first,
  // leave at once.
  int64_t first_bucket_bytes = int64_t{64} << 10;

  // InvalidArgument unless both are at least 1.
  absl::Status Validate() const;
};

struct BucketLayout {
  struct Bucket {
    DataType dtype = DataType::kF32;  // one a bucket
    int64_t count = 0;                // elements, padding included
    std::vector<int> parameters;      // their numbers, in the order of their slots
  };
  struct Slot {
    int bucket = 0;
    int64_t offset = 0;  // elements from the bucket's start; a multiple of a cache line
  };

  std::vector<Bucket> buckets;  // in the order in which they are reduced
  std::vector<Slot> slots;      // for each parameter

  // Fills buckets with the parameters from the last to the first, the order in which backward
  // completes them. A bucket ends before it would exceed its size (a larger parameter has one of
  // its own) and where the type changes.
  static BucketLayout Plan(absl::Span<const Parameter> parameters, const BucketSizes& sizes);
};

}  // namespace muster

#endif  // MUSTER_TRAINER_BUCKET_LAYOUT_H_

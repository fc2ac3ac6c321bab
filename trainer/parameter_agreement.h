// Makes sure that all ranks train the same model from the same start.
#ifndef MUSTER_TRAINER_PARAMETER_AGREEMENT_H_
#define MUSTER_TRAINER_PARAMETER_AGREEMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "muster/trainer/bucket_layout.h"
#include "muster/trainer/collectives.h"
#include "muster/trainer/module.h"

namespace muster {

// Local. InvalidArgument naming the parameter and what is wrong: no name or one that occurs twice,
// no memory, no elements, a shape or a gradient that does not fit, a type other than f32 and f64.
// Unimplemented: a device other than the CPU.
absl::Status ValidateParameters(absl::Span<const Parameter> parameters);

// Collective, between ranks with equally many parameters. InvalidArgument, the same on every rank,
// with the first parameter whose name, type, shape or place in the buckets differs, and what the
// two ranks have.
absl::Status VerifySameModel(Collectives& collectives, absl::Span<const Parameter> parameters,
                             const BucketLayout& layout);

// Collective. The values of rank 0 everywhere.
absl::Status BroadcastParameters(Collectives& collectives, absl::Span<const Parameter> parameters);

// Collective. FailedPrecondition, the same on every rank, with the first parameter and rank whose
// bits are not those of rank 0: "<when>: parameter hidden.weight of rank 1 differs from rank 0's
// ...". By a 64-bit checksum: two values that differ by chance or by a mistake are told apart, not
// by malice.
absl::Status VerifySameValues(Collectives& collectives, absl::Span<const Parameter> parameters,
                              absl::string_view when);

// The checksum that VerifySameValues compares.
int64_t Checksum(ConstBuffer values);

}  // namespace muster

#endif  // MUSTER_TRAINER_PARAMETER_AGREEMENT_H_

// What is measured: a library that makes process groups. One object a rank; all ranks call the same
// in the same order.
#ifndef MUSTER_TOOLS_BENCH_SUBJECT_H_
#define MUSTER_TOOLS_BENCH_SUBJECT_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace muster {
namespace bench {

// Bound of each step of a subject: of a set-up, of one operation.
inline constexpr absl::Duration kStepTimeout = absl::Seconds(30);

class Subject {
 public:
  virtual ~Subject() = default;

  // "muster/gloo"
  virtual const std::string& name() const = 0;

  // A group of all ranks, made and destroyed. The time that it took this rank.
  virtual absl::StatusOr<absl::Duration> CreateAndDestroy() = 0;

  // A group for the operations below, until Close.
  virtual absl::Status Open() = 0;
  virtual absl::Status Close() = 0;

  // The time of one of `iterations` sums in place of `count` f32, one after another. Two
  // operations before them are not measured: one whose result is checked, and one of a single
  // element that lets the ranks begin together.
  virtual absl::StatusOr<absl::Duration> AllReduce(int64_t count, int iterations) = 0;
};

// AllReduce, for a subject of this process. `sum` is the operation, in place.
absl::StatusOr<absl::Duration> TimeAllReduce(
    int rank, int size, int64_t count, int iterations,
    absl::FunctionRef<absl::Status(absl::Span<float>)> sum);

// How many sums of `bytes` make a sample: enough of the small ones that a clock and a late start
// matter little.
int IterationsFor(int64_t bytes);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_SUBJECT_H_

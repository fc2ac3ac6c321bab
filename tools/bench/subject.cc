#include "muster/tools/bench/subject.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {
namespace bench {

absl::StatusOr<absl::Duration> TimeAllReduce(
    int rank, int size, int64_t count, int iterations,
    absl::FunctionRef<absl::Status(absl::Span<float>)> sum) {
  std::vector<float> values(static_cast<size_t>(count), static_cast<float>(rank + 1));
  absl::Status status = sum(absl::MakeSpan(values));
  if (!status.ok()) return status;
  const int expected = size * (size + 1) / 2;
  for (float value : values) {
    if (value != static_cast<float>(expected)) {
      return absl::InternalError(
          absl::StrCat("a sum over ", size, " ranks is ", value, ": expected ", expected));
    }
  }
  // Sums of zeros stay zeros, however many there are.
  std::fill(values.begin(), values.end(), 0.0f);
  // The check took the ranks different times: they begin together again.
  status = sum(absl::MakeSpan(values).subspan(0, 1));
  if (!status.ok()) return status;
  const absl::Time begin = MonotonicNow();
  for (int i = 0; i < iterations; ++i) {
    status = sum(absl::MakeSpan(values));
    if (!status.ok()) return status;
  }
  return (MonotonicNow() - begin) / iterations;
}

int IterationsFor(int64_t bytes) {
  constexpr int64_t kBytesInASample = int64_t{8} << 20;
  return static_cast<int>(std::clamp<int64_t>(kBytesInASample / bytes, 1, 100));
}

}  // namespace bench
}  // namespace muster

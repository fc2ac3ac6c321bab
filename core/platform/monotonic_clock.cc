#include "muster/core/platform/monotonic_clock.h"

#include <chrono>  // NOLINT(build/c++11): absl has no steady clock

#include "absl/time/clock.h"

namespace muster {

absl::Time MonotonicNow() {
  struct Anchor {
    absl::Time wall = absl::Now();
    std::chrono::steady_clock::time_point steady = std::chrono::steady_clock::now();
  };
  static const Anchor anchor;
  return anchor.wall + absl::FromChrono(std::chrono::steady_clock::now() - anchor.steady);
}

}  // namespace muster

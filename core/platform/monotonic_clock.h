// The time that deadlines are measured in.
#ifndef MUSTER_CORE_PLATFORM_MONOTONIC_CLOCK_H_
#define MUSTER_CORE_PLATFORM_MONOTONIC_CLOCK_H_

#include "absl/time/time.h"

namespace muster {

// The wall clock as it stood at the first call in this process, plus the steady time since: close
// to absl::Now() for whoever writes `absl::Now() + timeout`, but no change of the system's clock
// moves it. Thread-safe. Every ControlThread of the process follows it.
absl::Time MonotonicNow();

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_MONOTONIC_CLOCK_H_

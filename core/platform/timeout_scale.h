// How much slower than usual this build of a test is. For tests and their helpers only: no promise
// of the library depends on it.
//
//   deadline = MonotonicNow() + TimeoutScale() * absl::Seconds(10);
#ifndef MUSTER_CORE_PLATFORM_TIMEOUT_SCALE_H_
#define MUSTER_CORE_PLATFORM_TIMEOUT_SCALE_H_

#include "muster/core/platform/environment.h"

namespace muster {

// MUSTER_TIMEOUT_SCALE (the sanitizers' configurations set 5), within [1, 100]; 1 where it is not
// set or not a number.
double TimeoutScale(const Environment& environment);
double TimeoutScale();  // of this process's environment

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_TIMEOUT_SCALE_H_

#include "muster/core/platform/wall_clock_jump.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "muster/core/platform/monotonic_clock.h"

namespace {

std::atomic<time_t> seconds_behind{0};

}  // namespace

// In place of the C library's, for the whole program: absl::Now() asks it.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec -= seconds_behind.load();
  return result;
}

namespace muster {

bool PutWallClockForward() {
  // The system's own time comes after: waits are the kernel's, which knows no other.
  seconds_behind = 3600;
  MonotonicNow();
  seconds_behind = 0;
  return absl::Now() - MonotonicNow() > absl::Minutes(30);
}

}  // namespace muster

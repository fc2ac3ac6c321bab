// Named points where a test makes things fail. Off, a point costs one relaxed load of an atomic.
//
// In the code under test:
//
//   absl::Status fault = HitFault(FaultPoint::kPoolConnected, rank);
//   if (!fault.ok()) return fault;
//
// In a test, for the life of a scope:
//
//   absl::StatusOr<ScopedFaults> faults = ScopedFaults::Arm("pool.connected=fail(rank=1)");
//
// In a job, through the environment (fault_spec.h has the grammar):
//
//   MUSTER_FAULTS='group.operation=crash(nth=3,rank=1)' muster run -n 2 -- ./program
//
// What is armed is a list of this process, shared by all its pools: a point deep inside the library
// has nobody to ask but the process, and an injected list would have to pass through every
// constructor. It is the one such list, and a scope empties what it armed.
#ifndef MUSTER_CORE_FAULT_FAULT_H_
#define MUSTER_CORE_FAULT_FAULT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/fault/fault_point.h"
#include "muster/core/fault/fault_spec.h"
#include "muster/core/platform/environment.h"

namespace muster {

namespace fault_internal {
extern std::atomic<int> armed;  // how many faults are armed
absl::Status Hit(FaultPoint point, int rank);
}  // namespace fault_internal

// A visit of `point` by `rank`. Thread-safe. OK when nothing is armed there; an armed delay()
// returns OK after it; fail() is an Aborted error with the fault's message; crash() and exit() do
// not return. Of several faults at a point each gets its turn, in the order of arming, up to the
// first fail().
inline absl::Status HitFault(FaultPoint point, int rank) {
  if (fault_internal::armed.load(std::memory_order_relaxed) == 0) return absl::OkStatus();
  return fault_internal::Hit(point, rank);
}

// Keeps faults armed. Move-only; the faults of a moved-from one live on in the new one.
class [[nodiscard]] ScopedFaults {
 public:
  // InvalidArgument when `text` is not in the grammar of fault_spec.h.
  static absl::StatusOr<ScopedFaults> Arm(absl::string_view text);
  static ScopedFaults Arm(std::vector<FaultSpec> specs);

  ScopedFaults(ScopedFaults&& other) noexcept : ids_(std::exchange(other.ids_, {})) {}
  ScopedFaults& operator=(ScopedFaults&& other) noexcept;
  ~ScopedFaults() { Disarm(); }

  void Disarm();
  // How often they happened so far, all together: a test checks with it that its fault was not past
  // its point.
  int64_t happened() const;

 private:
  ScopedFaults() = default;
  std::vector<uint64_t> ids_;
};

// Arms what MUSTER_FAULTS says, for the life of the process. Called wherever a job is joined: by
// GroupPool::Create, and so by FromEnvironment. Again with the same text it changes nothing, so
// that visits are counted over all the pools of a process. InvalidArgument as ParseFaults says,
// with the variable's name; FailedPrecondition when the text is another one.
absl::Status ArmFaultsFromEnvironment(const Environment& environment);

}  // namespace muster

#endif  // MUSTER_CORE_FAULT_FAULT_H_

// What shall go wrong, where, at which visit and on which rank: a value, and its text form.
//
//   pool.connected=fail(message="no route",rank=1,nth=2); group.operation=delay(duration=50ms)
//
//   faults = fault *(";" fault)                 spaces around tokens are fine, a ";" at the end too
//   fault  = point "=" action ["(" [argument *("," argument)] ")"]
//   action = "fail"    the code at the point gets an error: message=TEXT (default "injected fault
//                      at <point>")
//          | "crash"   SIGKILL to this process
//          | "exit"    std::exit, so that exit hooks run: code=0..255 (default 3)
//          | "stop"    SIGSTOP to this process
//          | "delay"   the calling thread sleeps: duration=DURATION (needed; as
//                      absl::ParseDuration: 50ms, 1.5s)
//   any of them takes: rank=R   only on this rank (default: on each)
//                      nth=K    from the K-th visit of that rank on, counted from 1 since arming
//                               (default 1)
//                      times=T  at T visits, then never again (default: once where nth is given,
//                               else always)
//   TEXT and DURATION may stand in double quotes, with \" and \\ inside.
#ifndef MUSTER_CORE_FAULT_FAULT_SPEC_H_
#define MUSTER_CORE_FAULT_FAULT_SPEC_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/fault/fault_point.h"

namespace muster {

enum class FaultAction { kFail, kCrash, kExit, kStop, kDelay };

absl::string_view Name(FaultAction action);  // "fail"

struct FaultSpec {
  static constexpr int64_t kAlways = std::numeric_limits<int64_t>::max();

  FaultPoint point = FaultPoint::kPoolRendezvous;
  FaultAction action = FaultAction::kFail;
  std::string message;      // kFail; "" is the default message
  int exit_code = 3;        // kExit
  absl::Duration duration;  // kDelay
  std::optional<int> rank;
  int64_t nth = 1;
  int64_t times = kAlways;

  // Whether it happens at the `visit`-th visit (from 1) of `at_rank`.
  bool AppliesTo(int at_rank, int64_t visit) const;
};

// The grammar above. InvalidArgument naming the fault, what was seen and what was expected.
absl::StatusOr<std::vector<FaultSpec>> ParseFaults(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_CORE_FAULT_FAULT_SPEC_H_

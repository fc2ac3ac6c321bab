// The places where a test can make things fail, all of them.
//
// To add one: a value here, a line in the table of fault_point.cc (a test checks that the two
// agree), and a call of `HitFault` where it happens.
#ifndef MUSTER_CORE_FAULT_FAULT_POINT_H_
#define MUSTER_CORE_FAULT_FAULT_POINT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

enum class FaultPoint {
  kPoolRendezvous,  // before a rank meets its peers
  kPoolConnecting,  // the peers are met, before the backend connects
  kPoolConnected,   // the backend has connected here, before the others are told
  kPoolRollback,    // before set-up that failed is undone; fail() skips the undoing, which tests of
                    // the tests need
  kPoolVoting,   // a rank is asked whether its group may be replaced, before it looks who holds it
  kPoolClosing,  // before a rank agrees to close
  kGroupQueue,   // before the thread for a group's asynchronous operations is started
  kGroupOperation,  // before each operation of a group
};

struct FaultPointInfo {
  FaultPoint point;
  absl::string_view name;  // "pool.connected"
};

// Every point, in the order of the enum.
absl::Span<const FaultPointInfo> AllFaultPoints();

absl::string_view Name(FaultPoint point);

// InvalidArgument that lists the known points.
absl::StatusOr<FaultPoint> FaultPointByName(absl::string_view name);

}  // namespace muster

#endif  // MUSTER_CORE_FAULT_FAULT_POINT_H_

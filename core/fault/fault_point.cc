#include "muster/core/fault/fault_point.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {
namespace {

constexpr FaultPointInfo kPoints[] = {
    {FaultPoint::kPoolRendezvous, "pool.rendezvous"},
    {FaultPoint::kPoolConnecting, "pool.connecting"},
    {FaultPoint::kPoolConnected, "pool.connected"},
    {FaultPoint::kPoolRollback, "pool.rollback"},
    {FaultPoint::kPoolVoting, "pool.voting"},
    {FaultPoint::kPoolClosing, "pool.closing"},
    {FaultPoint::kGroupQueue, "group.queue"},
    {FaultPoint::kGroupOperation, "group.operation"},
};

}  // namespace

absl::Span<const FaultPointInfo> AllFaultPoints() { return kPoints; }

absl::string_view Name(FaultPoint point) { return kPoints[static_cast<size_t>(point)].name; }

absl::StatusOr<FaultPoint> FaultPointByName(absl::string_view name) {
  for (const FaultPointInfo& info : kPoints) {
    if (info.name == name) return info.point;
  }
  const auto append_name = [](std::string* out, const FaultPointInfo& info) {
    absl::StrAppend(out, info.name);
  };
  return absl::InvalidArgumentError(absl::StrCat("unknown fault point \"", absl::CHexEscape(name),
                                                 "\": expected one of ",
                                                 absl::StrJoin(kPoints, ", ", append_name)));
}

}  // namespace muster

#include "muster/core/lifecycle/pool_decision.h"

#include "absl/strings/str_cat.h"

namespace muster {

AcquireDecision DecideAcquire(const NamedGroup& group) {
  using Kind = AcquireDecision::Kind;
  if (!group.exists || IsTerminal(group.state)) return {Kind::kCreate, absl::OkStatus()};
  // Not refused for a lease that is out: no operation is accepted any more, and a lease that nobody
  // needs now may outlive this call, as in `lease = pool.Acquire(other)`.
  if (IsEnding(group.state)) return {Kind::kWait, absl::OkStatus()};
  const bool ready = group.state == GroupState::kReady;
  if (!group.difference.empty() && !group.holders.empty()) {
    return {Kind::kRefuse, absl::FailedPreconditionError(absl::StrCat(
                               "group '", group.id, "' is held here (", group.holders,
                               ") and another one is wanted under that name (", group.difference,
                               "); release it first, or use another name"))};
  }
  // During its set-up, its end or a vote on its replacement nobody can tell yet whether it may be
  // used.
  if (!ready || group.voting) return {Kind::kWait, absl::OkStatus()};
  return {group.difference.empty() ? Kind::kReuse : Kind::kPropose, absl::OkStatus()};
}

}  // namespace muster

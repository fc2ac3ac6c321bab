// How often a session shows that it lives: what its client and its server must agree on.
#ifndef MUSTER_CORE_STORE_HEARTBEAT_H_
#define MUSTER_CORE_STORE_HEARTBEAT_H_

#include <algorithm>

#include "absl/time/time.h"

namespace muster::store_internal {

inline constexpr int kBeatsPerTimeout = 10;
// However little a client says its timeout is.
inline constexpr absl::Duration kShortestBeat = absl::Milliseconds(1);

// From one beat to the next, and from one look at the sessions to the next.
inline absl::Duration BeatOf(absl::Duration heartbeat_timeout) {
  return std::max(kShortestBeat, heartbeat_timeout / kBeatsPerTimeout);
}

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_HEARTBEAT_H_

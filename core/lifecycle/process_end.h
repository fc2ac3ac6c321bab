// How a rank says that its process or its pool ends under a group, and how that is read: the words
// stand here alone.
//
//   ProcessEnd("rank 1 (host b, pid 812)", kExitedWithGroups)
//       // "rank 1 (host b, pid 812) exited while its groups were alive"
//
// Such a sentence is the cause of the process's groups and the reason with which its session leaves
// the store. Peers decide by it: nobody comes again from a process that ends, while a pool that was
// closed may be followed by the next one.
#ifndef MUSTER_CORE_LIFECYCLE_PROCESS_END_H_
#define MUSTER_CORE_LIFECYCLE_PROCESS_END_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// How it ends. What follows the first three tells more.
inline constexpr absl::string_view kExited = "exited ";
inline constexpr absl::string_view kToldToStop = "was told to stop by signal ";
inline constexpr absl::string_view kDestroyedItsPool = "destroyed its pool while ";
inline constexpr absl::string_view kExitedWithGroups = "exited while its groups were alive";
inline constexpr absl::string_view kExitedWithPool = "exited while its pool was open";

// `who`: SessionRecord::Who.
std::string ProcessEnd(absl::string_view who, absl::string_view how);

// Whether `reason`, which the session of `who` gave when it left, says that its process ends.
bool SaysThatItsProcessEnds(absl::string_view reason, absl::string_view who);

// Whether a cause says that the process of the rank with which it begins has ended, or is about to:
// ProcessEnd, or "rank 1 (host b, pid 812) was lost: ..." of a session that the store declared
// lost.
bool TellsOfAProcessEnd(absl::string_view cause);

}  // namespace muster

#endif  // MUSTER_CORE_LIFECYCLE_PROCESS_END_H_

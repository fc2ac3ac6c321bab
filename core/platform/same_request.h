// When a signal that comes again is the same request, and when it is impatience.
//
// `timeout 60 program` signals its child and then its process group, and a terminal's Ctrl-C may
// come with a parent's own. Nobody who waits for an orderly end loses patience that soon.
#ifndef MUSTER_CORE_PLATFORM_SAME_REQUEST_H_
#define MUSTER_CORE_PLATFORM_SAME_REQUEST_H_

#include <cstdint>

namespace muster {

// A number, since a signal handler asks.
inline constexpr int64_t kSameRequestMilliseconds = 500;

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_SAME_REQUEST_H_

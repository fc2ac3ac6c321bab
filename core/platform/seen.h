// What a message shows of a value that somebody else gave.
#ifndef MUSTER_CORE_PLATFORM_SEEN_H_
#define MUSTER_CORE_PLATFORM_SEEN_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// In double quotes and on one line: "train", "a\nb"; of one that is longer than 80 bytes the
// beginning and how long it is.
std::string Seen(absl::string_view value);

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_SEEN_H_

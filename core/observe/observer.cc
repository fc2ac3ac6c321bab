#include "muster/core/observe/observer.h"

#include "absl/strings/str_cat.h"

namespace muster {

std::string TransitionEvent::ToString() const {
  return absl::StrCat(group, " rank ", rank, ": ", Name(from), " -> ", Name(to), " (", Name(event),
                      ")", cause.ok() ? "" : absl::StrCat(": ", cause.message()));
}

}  // namespace muster

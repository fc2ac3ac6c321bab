#include "muster/core/platform/seen.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace muster {

std::string Seen(absl::string_view value) {
  constexpr size_t kShown = 80;
  if (value.size() <= kShown) return absl::StrCat("\"", absl::CHexEscape(value), "\"");
  return absl::StrCat("\"", absl::CHexEscape(value.substr(0, kShown)), "...\" (", value.size(),
                      " bytes)");
}

}  // namespace muster

#include "muster/core/platform/source_location.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

std::string SourceLocation::ToString() const {
  absl::string_view file = file_;
  if (file.empty()) return "unknown place";
  const size_t slash = file.rfind('/');
  if (slash != absl::string_view::npos) file.remove_prefix(slash + 1);
  return absl::StrCat(file, ":", line_);
}

}  // namespace muster

#include "muster/core/launch/line_prefixer.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

LinePrefixer::LinePrefixer(int rank) : prefix_(absl::StrCat("[", rank, "] ")) {}

void LinePrefixer::Add(absl::string_view bytes, std::string* out) {
  while (!bytes.empty()) {
    if (bytes[0] == '\n') {
      Emit(out);
      bytes.remove_prefix(1);
      continue;
    }
    if (partial_.size() == kMaxLine) Emit(out);
    const size_t line = std::min(bytes.find('\n'), bytes.size());
    const size_t taken = std::min(line, kMaxLine - partial_.size());
    absl::StrAppend(&partial_, bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
}

void LinePrefixer::Finish(std::string* out) {
  if (!partial_.empty()) Emit(out);
}

void LinePrefixer::Emit(std::string* out) {
  absl::StrAppend(out, prefix_, partial_, "\n");
  partial_.clear();
}

}  // namespace muster

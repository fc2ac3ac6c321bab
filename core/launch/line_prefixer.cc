#include "muster/core/launch/line_prefixer.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace muster {

LinePrefixer::LinePrefixer(int rank, Mode mode)
    : prefix_(absl::StrCat("[", rank, "] ")), mode_(mode) {}

void LinePrefixer::Add(absl::string_view bytes, std::string* out) {
  while (!bytes.empty()) {
    if (bytes[0] == '\n') {
      Emit(out);
      bytes.remove_prefix(1);
      continue;
    }
    Redraw();
    if (partial_.size() == kMaxLine) Emit(out);
    size_t end = std::min(bytes.find('\n'), bytes.size());
    // With its carriage return: what the next byte is decides about it.
    if (mode_ == kRedraw) end = std::min(bytes.find('\r'), end - 1) + 1;
    const size_t taken = std::min(end, kMaxLine - partial_.size());
    absl::StrAppend(&partial_, bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
}

void LinePrefixer::Finish(std::string* out) {
  Redraw();
  if (!partial_.empty()) Emit(out);
  redrawn_ = false;
}

std::string LinePrefixer::bar() const {
  if (mode_ != kRedraw || (!redrawn_ && !absl::EndsWith(partial_, "\r"))) return "";
  // Blanks are how a bar is wiped out.
  const absl::string_view shown =
      absl::StripTrailingAsciiWhitespace(absl::StripSuffix(partial_, "\r"));
  return shown.empty() ? "" : absl::StrCat(prefix_, shown);
}

void LinePrefixer::Redraw() {
  if (mode_ != kRedraw || !absl::EndsWith(partial_, "\r")) return;
  partial_.clear();
  redrawn_ = true;
}

void LinePrefixer::Emit(std::string* out) {
  absl::StrAppend(out, prefix_, partial_, "\n");
  partial_.clear();
  redrawn_ = false;
}

}  // namespace muster

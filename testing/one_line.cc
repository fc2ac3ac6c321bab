#include "muster/testing/one_line.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace muster {
namespace testing {

std::string OneLine(absl::string_view message, size_t limit) {
  absl::string_view told = message;
  // Alone it is all there is to say.
  absl::ConsumePrefix(&told, "Failed\n");
  std::string text(absl::StripAsciiWhitespace(told).empty() ? message : told);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }, ' ');
  absl::RemoveExtraAsciiWhitespace(&text);
  if (text.size() > limit) text = absl::StrCat(text.substr(0, limit), "...");
  return text;
}

}  // namespace testing
}  // namespace muster

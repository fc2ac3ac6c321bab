#include "muster/testing/names_rank.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace muster::testing {
namespace {

// The number that `text` begins with, taken off it; nothing where it is a part of a word.
std::optional<int> TakeNumber(absl::string_view* text) {
  const auto end = std::find_if_not(text->begin(), text->end(),
                                    [](unsigned char c) { return absl::ascii_isdigit(c); });
  int number = 0;
  const auto digits = static_cast<size_t>(end - text->begin());
  const bool whole = absl::SimpleAtoi(text->substr(0, digits), &number);
  text->remove_prefix(digits);
  if (!whole) return std::nullopt;
  if (!text->empty() && absl::ascii_isalpha(static_cast<unsigned char>((*text)[0]))) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

bool NamesRank(absl::string_view message, int rank) {
  const auto letter = [&](size_t at) {
    return at < message.size() && absl::ascii_isalnum(static_cast<unsigned char>(message[at]));
  };
  constexpr absl::string_view kWord = "rank";
  for (size_t at = message.find(kWord); at != absl::string_view::npos;
       at = message.find(kWord, at + 1)) {
    if (at > 0 && letter(at - 1)) continue;
    absl::string_view rest = message.substr(at + kWord.size());
    const bool several = absl::ConsumePrefix(&rest, "s");
    if (!absl::ConsumePrefix(&rest, " ")) continue;
    do {
      const std::optional<int> number = TakeNumber(&rest);
      if (!number.has_value() || absl::StartsWith(rest, " more")) break;
      std::optional<int> last = number;
      if (several && absl::ConsumePrefix(&rest, " to ")) last = TakeNumber(&rest);
      if (!last.has_value()) break;
      if (*number <= rank && rank <= *last) return true;
    } while (several && (absl::ConsumePrefix(&rest, ", and ") || absl::ConsumePrefix(&rest, ", ") ||
                         absl::ConsumePrefix(&rest, " and ")));
  }
  return false;
}

}  // namespace muster::testing

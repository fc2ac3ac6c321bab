#include "muster/core/platform/rename_ranks.h"

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool IsWord(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The number that `text` begins with, taken off it; nothing where it is a part of a word.
std::optional<int> TakeNumber(absl::string_view* text) {
  size_t digits = 0;
  while (digits < text->size() && IsDigit((*text)[digits])) ++digits;
  int number = 0;
  if (!absl::SimpleAtoi(text->substr(0, digits), &number)) return std::nullopt;
  if (digits < text->size() && IsWord((*text)[digits])) return std::nullopt;
  text->remove_prefix(digits);
  return number;
}

std::string NameOf(int rank, absl::Span<const int> names) {
  return absl::StrCat(static_cast<size_t>(rank) < names.size() ? names[rank] : rank);
}

// Moves the numbers at the beginning of `text` to `out`, with their names.
void RenameList(absl::string_view* text, bool several, absl::Span<const int> names,
                std::string* out) {
  while (true) {
    const std::optional<int> first = TakeNumber(text);
    if (!first.has_value()) return;
    absl::string_view rest = *text;
    std::optional<int> last;
    if (several && absl::ConsumePrefix(&rest, " to ")) last = TakeNumber(&rest);
    if (last.has_value() && *first <= *last && static_cast<size_t>(*last) < names.size()) {
      *text = rest;
      absl::StrAppend(out, absl::StrJoin(names.subspan(*first, *last - *first + 1), ", "));
    } else {
      absl::StrAppend(out, NameOf(*first, names));
    }
    if (!several) return;
    bool more = false;
    for (const absl::string_view between : {", and ", ", ", " and "}) {
      rest = *text;
      // "... and 3 more" counts them.
      if (!absl::ConsumePrefix(&rest, between)) continue;
      absl::string_view after = rest;
      more = TakeNumber(&after).has_value() && !absl::StartsWith(after, " more");
      if (!more) return;
      absl::StrAppend(out, between);
      *text = rest;
      break;
    }
    if (!more) return;
  }
}

}  // namespace

std::string RenameRanks(absl::string_view message, absl::Span<const int> names) {
  if (names.empty()) return std::string(message);
  constexpr absl::string_view kWord = "rank";
  std::string out;
  while (true) {
    const size_t at = message.find(kWord);
    if (at == absl::string_view::npos) break;
    const bool begins_a_word =
        at == 0 ? out.empty() || !IsWord(out.back()) : !IsWord(message[at - 1]);
    absl::StrAppend(&out, message.substr(0, at + kWord.size()));
    message.remove_prefix(at + kWord.size());
    if (!begins_a_word) continue;
    absl::string_view rest = message;
    const bool several = absl::ConsumePrefix(&rest, "s");
    if (!absl::ConsumePrefix(&rest, " ")) continue;
    absl::StrAppend(&out, several ? "s " : " ");
    message = rest;
    RenameList(&message, several, names, &out);
  }
  return absl::StrCat(out, message);
}

}  // namespace muster

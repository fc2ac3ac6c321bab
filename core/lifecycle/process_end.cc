#include "muster/core/lifecycle/process_end.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

bool ConsumeDigits(absl::string_view* text) {
  size_t digits = 0;
  while (digits < text->size() && absl::ascii_isdigit((*text)[digits])) ++digits;
  text->remove_prefix(digits);
  return digits > 0;
}

// What comes after "rank 1 (host b, pid 812) ", with which `text` begins.
std::optional<absl::string_view> AfterWho(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "rank ") || !ConsumeDigits(&text) ||
      !absl::ConsumePrefix(&text, " (host ")) {
    return std::nullopt;
  }
  constexpr absl::string_view kPid = ", pid ";
  const size_t pid = text.find(kPid);
  if (pid == absl::string_view::npos) return std::nullopt;
  text.remove_prefix(pid + kPid.size());
  if (!ConsumeDigits(&text) || !absl::ConsumePrefix(&text, ") ")) return std::nullopt;
  return text;
}

bool IsProcessEnd(absl::string_view how) {
  return absl::StartsWith(how, kExited) || absl::StartsWith(how, kToldToStop);
}

}  // namespace

std::string ProcessEnd(absl::string_view who, absl::string_view how) {
  return absl::StrCat(who, " ", how);
}

bool SaysThatItsProcessEnds(absl::string_view reason, absl::string_view who) {
  return absl::ConsumePrefix(&reason, who) && absl::ConsumePrefix(&reason, " ") &&
         IsProcessEnd(reason);
}

bool TellsOfAProcessEnd(absl::string_view cause) {
  const std::optional<absl::string_view> how = AfterWho(cause);
  return how.has_value() && (IsProcessEnd(*how) || absl::StartsWith(*how, "was lost: "));
}

}  // namespace muster

#include "muster/core/lifecycle/split.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "muster/core/lifecycle/json_fields.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

using lifecycle_internal::Dump;
using lifecycle_internal::JsonFields;

constexpr absl::string_view kSplit = ":split";

int TakeInt(JsonFields& fields, const char* name) {
  const int64_t value = fields.Int(name);
  if (value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max()) {
    return static_cast<int>(value);
  }
  fields.Fail(absl::StrCat("'", name, "' is ", value));
  return 0;
}

}  // namespace

std::string SplitChoice::Encode() const {
  return Dump({{"color", color}, {"key", key}, {"taken", taken}});
}

absl::StatusOr<SplitChoice> SplitChoice::Decode(absl::string_view text) {
  JsonFields fields("choice of a split", text);
  SplitChoice choice;
  choice.color = TakeInt(fields, "color");
  choice.key = TakeInt(fields, "key");
  for (const nlohmann::json& number : fields.Array("taken")) {
    if (!number.is_number_integer()) {
      fields.Fail("a number of a split is not an integer");
      break;
    }
    choice.taken.push_back(number.get<int>());
  }
  if (!fields.status().ok()) return fields.status();
  return choice;
}

SplitDecision DecideSplit(absl::Span<const SplitChoice> choices, int rank) {
  SplitDecision decision;
  std::set<int> taken;
  for (const SplitChoice& choice : choices) taken.insert(choice.taken.begin(), choice.taken.end());
  while (taken.count(decision.number) != 0) ++decision.number;
  if (choices[rank].color < 0) return decision;
  for (int other = 0; other < static_cast<int>(choices.size()); ++other) {
    if (choices[other].color == choices[rank].color) decision.members.push_back(other);
  }
  std::stable_sort(decision.members.begin(), decision.members.end(),
                   [&](int a, int b) { return choices[a].key < choices[b].key; });
  return decision;
}

std::string SplitName(absl::string_view parent, int number, int color) {
  return absl::StrCat(parent, kSplit, number, ".color", color);
}

std::optional<int> SplitNumber(absl::string_view parent, absl::string_view name) {
  int number = 0;
  if (!absl::ConsumePrefix(&name, parent) || !absl::ConsumePrefix(&name, kSplit) ||
      !absl::SimpleAtoi(name.substr(0, name.find('.')), &number)) {
    return std::nullopt;
  }
  return number;
}

std::string SplitKey(absl::string_view scope, int64_t generation) {
  return absl::StrCat("split/", scope, "/", generation);
}

}  // namespace muster

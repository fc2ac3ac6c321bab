#include "muster/trainer/examples/flag_types.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muster {

bool AbslParseFlag(absl::string_view text, CountFlag* flag, std::string* error) {
  constexpr int64_t kMost = 1000000;
  if (absl::SimpleAtoi(text, &flag->value) && flag->value >= 1 && flag->value <= kMost) return true;
  *error = absl::StrCat("give a whole number from 1 to ", kMost);
  return false;
}
std::string AbslUnparseFlag(const CountFlag& flag) { return absl::StrCat(flag.value); }

bool AbslParseFlag(absl::string_view text, RateFlag* flag, std::string* error) {
  if (absl::SimpleAtod(text, &flag->value) && std::isfinite(flag->value) && flag->value > 0) {
    return true;
  }
  *error = "give a finite number greater than 0";
  return false;
}
std::string AbslUnparseFlag(const RateFlag& flag) { return absl::StrCat(flag.value); }

bool AbslParseFlag(absl::string_view text, FractionFlag* flag, std::string* error) {
  if (absl::SimpleAtod(text, &flag->value) && flag->value >= 0 && flag->value < 1) return true;
  *error = "give a number of at least 0 and less than 1";
  return false;
}
std::string AbslUnparseFlag(const FractionFlag& flag) { return absl::StrCat(flag.value); }

bool AbslParseFlag(absl::string_view text, TimeoutFlag* flag, std::string* error) {
  if (absl::ParseDuration(text, &flag->value) && flag->value >= absl::Milliseconds(1)) return true;
  *error = "give a duration of at least 1ms, such as 500ms, 30s or inf";
  return false;
}
std::string AbslUnparseFlag(const TimeoutFlag& flag) { return absl::FormatDuration(flag.value); }

bool AbslParseFlag(absl::string_view text, GroupLifetime* flag, std::string* error) {
  if (text == "trainer" || text == "stage") {
    *flag = text == "trainer" ? GroupLifetime::kTrainer : GroupLifetime::kStage;
    return true;
  }
  *error = "give trainer (the group is reused by all stages) or stage (each has its own)";
  return false;
}
std::string AbslUnparseFlag(GroupLifetime flag) {
  return flag == GroupLifetime::kTrainer ? "trainer" : "stage";
}

}  // namespace muster

#include "muster/core/fault/fault_spec.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {
namespace {

constexpr FaultAction kActions[] = {FaultAction::kFail, FaultAction::kCrash, FaultAction::kExit,
                                    FaultAction::kStop, FaultAction::kDelay};

// One pass over the text. Each Read... consumes what it read and the spaces after it.
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text), rest_(text) { SkipSpaces(); }

  absl::StatusOr<std::vector<FaultSpec>> Faults() {
    std::vector<FaultSpec> faults;
    while (!rest_.empty()) {
      absl::StatusOr<FaultSpec> fault = Fault();
      if (!fault.ok()) return fault.status();
      faults.push_back(*std::move(fault));
      if (!rest_.empty() && !Consume(';')) return Expected("\";\" or the end after a fault");
    }
    return faults;
  }

 private:
  absl::StatusOr<FaultSpec> Fault() {
    FaultSpec fault;
    absl::StatusOr<FaultPoint> point = FaultPointByName(Word());
    if (!point.ok()) return InText(point.status().message());
    fault.point = *point;
    if (!Consume('=')) return Expected("\"=\" and an action after the point");
    const absl::string_view action = Word();
    bool known = false;
    for (const FaultAction candidate : kActions) {
      if (Name(candidate) != action) continue;
      fault.action = candidate;
      known = true;
    }
    if (!known) {
      return InText(absl::StrCat("unknown action \"", action,
                                 "\": expected fail, crash, exit, stop or delay"));
    }
    std::set<std::string> seen;
    if (Consume('(') && !Consume(')')) {
      do {
        const std::string name(Word());
        if (!seen.insert(name).second) {
          return InText(absl::StrCat("argument ", name, " is given twice"));
        }
        if (!Consume('=')) {
          return Expected(absl::StrCat("\"=\" and a value after argument \"", name, "\""));
        }
        absl::StatusOr<std::string> value = Value();
        if (!value.ok()) return value.status();
        absl::Status set = SetArgument(name, *value, &fault);
        if (!set.ok()) return set;
      } while (Consume(','));
      if (!Consume(')')) return Expected("\",\" or \")\" after an argument");
    }
    if (fault.action == FaultAction::kDelay && seen.count("duration") == 0) {
      return InText("delay needs duration=DURATION, such as delay(duration=50ms)");
    }
    if (seen.count("nth") != 0 && seen.count("times") == 0) fault.times = 1;
    return fault;
  }

  absl::Status SetArgument(absl::string_view name, const std::string& value,
                           FaultSpec* fault) const {
    const auto number = [&](int64_t low, int64_t high) -> absl::StatusOr<int64_t> {
      int64_t parsed = 0;
      const bool digits =
          !value.empty() && absl::ascii_isdigit(static_cast<unsigned char>(value[0]));
      if (digits && absl::SimpleAtoi(value, &parsed) && parsed >= low && parsed <= high) {
        return parsed;
      }
      return InText(absl::StrCat(name, " is \"", absl::CHexEscape(value),
                                 "\": expected a whole number from ", low, " to ", high));
    };
    constexpr int64_t kMany = int64_t{1} << 40;
    absl::StatusOr<int64_t> parsed;
    if (name == "rank") {
      parsed = number(0, (1 << 20) - 1);
      if (parsed.ok()) fault->rank = static_cast<int>(*parsed);
      return parsed.status();
    }
    if (name == "nth") {
      parsed = number(1, kMany);
      if (parsed.ok()) fault->nth = *parsed;
      return parsed.status();
    }
    if (name == "times") {
      parsed = number(1, kMany);
      if (parsed.ok()) fault->times = *parsed;
      return parsed.status();
    }
    if (name == "message" && fault->action == FaultAction::kFail) {
      if (value.empty()) return InText("message is empty: expected a text");
      fault->message = value;
      return absl::OkStatus();
    }
    if (name == "code" && fault->action == FaultAction::kExit) {
      parsed = number(0, 255);
      if (parsed.ok()) fault->exit_code = static_cast<int>(*parsed);
      return parsed.status();
    }
    if (name == "duration" && fault->action == FaultAction::kDelay) {
      const bool valid = absl::ParseDuration(value, &fault->duration) &&
                         fault->duration >= absl::ZeroDuration() &&
                         fault->duration < absl::InfiniteDuration();
      if (valid) return absl::OkStatus();
      return InText(absl::StrCat("duration is \"", absl::CHexEscape(value),
                                 "\": expected one such as 50ms or 1.5s"));
    }
    absl::string_view own;
    if (fault->action == FaultAction::kFail) own = "message, ";
    if (fault->action == FaultAction::kExit) own = "code, ";
    if (fault->action == FaultAction::kDelay) own = "duration, ";
    return InText(absl::StrCat("unknown argument \"", name, "\" of ", Name(fault->action),
                               ": expected ", own, "rank, nth or times"));
  }

  // Letters, digits and "._+-"; possibly empty.
  absl::string_view Word() {
    size_t size = 0;
    while (size < rest_.size() && (absl::ascii_isalnum(static_cast<unsigned char>(rest_[size])) ||
                                   absl::StrContains("._+-", rest_[size]))) {
      ++size;
    }
    const absl::string_view word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    SkipSpaces();
    return word;
  }

  absl::StatusOr<std::string> Value() {
    if (rest_.empty() || rest_[0] != '"') {
      const absl::string_view word = Word();
      if (word.empty()) return Expected("a value: a word, or any text in double quotes");
      return std::string(word);
    }
    std::string value;
    for (size_t i = 1; i < rest_.size(); ++i) {
      char c = rest_[i];
      if (c == '"') {
        rest_.remove_prefix(i + 1);
        SkipSpaces();
        return value;
      }
      if (c == '\\') {
        if (++i == rest_.size()) break;
        c = rest_[i];
        if (c != '"' && c != '\\') {
          return InText(
              absl::StrCat("unknown escape \\", std::string(1, c), ": expected \\\" or \\\\"));
        }
      }
      value.push_back(c);
    }
    return InText("a text is not closed: expected a double quote at its end");
  }

  bool Consume(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    SkipSpaces();
    return true;
  }

  void SkipSpaces() {
    while (!rest_.empty() && absl::ascii_isspace(static_cast<unsigned char>(rest_[0]))) {
      rest_.remove_prefix(1);
    }
  }

  absl::Status Expected(absl::string_view what) const {
    constexpr size_t kShown = 20;
    const std::string at =
        rest_.empty() ? "the end"
                      : absl::StrCat("\"", absl::CHexEscape(rest_.substr(0, kShown)), "\"");
    return InText(absl::StrCat("at ", at, ": expected ", what));
  }

  absl::Status InText(absl::string_view message) const {
    return absl::InvalidArgumentError(
        absl::StrCat("faults \"", absl::CHexEscape(text_), "\": ", message));
  }

  const absl::string_view text_;
  absl::string_view rest_;
};

}  // namespace

absl::string_view Name(FaultAction action) {
  switch (action) {
    case FaultAction::kFail:
      return "fail";
    case FaultAction::kCrash:
      return "crash";
    case FaultAction::kExit:
      return "exit";
    case FaultAction::kStop:
      return "stop";
    case FaultAction::kDelay:
      return "delay";
  }
  return "?";
}

bool FaultSpec::AppliesTo(int at_rank, int64_t visit) const {
  if (rank.has_value() && *rank != at_rank) return false;
  return visit >= nth && visit - nth < times;
}

absl::StatusOr<std::vector<FaultSpec>> ParseFaults(absl::string_view text) {
  return Parser(text).Faults();
}

}  // namespace muster

#include "muster/testing/contract/fault_row.h"

#include <regex.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace muster::testing {
namespace {

// What `pattern` finds.
std::optional<std::string> Found(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED) != 0) return std::nullopt;
  regmatch_t match;
  const bool found = regexec(&compiled, text.c_str(), 1, &match, 0) == 0;
  regfree(&compiled);
  if (!found) return std::nullopt;
  return text.substr(static_cast<size_t>(match.rm_so),
                     static_cast<size_t>(match.rm_eo - match.rm_so));
}

// To a tenth.
double Milliseconds(int64_t nanoseconds) {
  return std::max<double>(0, static_cast<double>(nanoseconds / 100'000) / 10);
}

class Judgement {
 public:
  Judgement(const FaultCell& cell, const FaultObservation& seen)
      : cell_(cell), seen_(seen), expected_(Expect(cell)), row_(FaultRow::Of(cell, "", "")) {}

  FaultRow Make() {
    if (!seen_.trouble.empty()) {
      Blame(seen_.trouble);
    } else if (seen_.struck == 0) {
      Blame("the fault did not happen, since not every rank came to its place");
    }
    for (int rank = 0; rank < static_cast<int>(seen_.ranks.size()); ++rank) Look(rank);
    for (const std::string& thing : seen_.left) left_.push_back(thing);
    for (const std::string& thing : left_) Blame(absl::StrCat("left: ", thing));
    row_.left = left_.empty() ? RankReport::kNothing : absl::StrJoin(left_, "; ");
    if (row_.known_ms > absl::ToDoubleMilliseconds(expected_.known)) {
      Blame(absl::StrCat("known after ", row_.known_ms, " ms, bound ",
                         absl::FormatDuration(expected_.known)));
    }
    if (row_.ms > absl::ToDoubleMilliseconds(expected_.terminal)) {
      Blame(absl::StrCat("ended after ", row_.ms, " ms, bound ",
                         absl::FormatDuration(expected_.terminal)));
    }
    row_.verdict = wrong_.empty() ? FaultRow::kOk : FaultRow::kFailed;
    row_.why = absl::StrJoin(wrong_, "; ");
    return row_;
  }

 private:
  void Blame(absl::string_view what) { wrong_.emplace_back(what); }

  void Look(int rank) {
    const RankReport& report = seen_.ranks[static_cast<size_t>(rank)];
    const std::string who = absl::StrCat("rank ", rank);
    const bool victim = rank == cell_.victim();
    if (victim && EndsItsProcess()) return;
    if (report.ended.empty()) {
      Blame(absl::StrCat(who, " hangs", report.terminal.has_value() ? " after its group's end" : "",
                         ": its process ", report.exit.empty() ? "did not end" : report.exit));
      return;
    }
    if (report.left != RankReport::kNothing) {
      left_.push_back(absl::StrCat(report.left, " by ", who));
    }
    if (report.ended == RankReport::kNeverBegan) {
      const bool may = rank == cell_.latecomer() || (victim && cell_.phase == Phase::kRendezvous);
      if (!may) Blame(absl::StrCat(who, "'s group never began"));
      return;
    }
    if (!report.terminal.has_value()) {
      Blame(absl::StrCat(who, "'s group has no end"));
      return;
    }
    if (!victim || expected_.must_end_clean) LookAtCause(who, report);
    if (victim && !cell_.harmless()) return;  // out of reach, or stopped: its times are its own
    row_.ms = std::max(row_.ms, Milliseconds(*report.terminal - seen_.struck));
    row_.known_ms = std::max(row_.known_ms,
                             Milliseconds(report.known.value_or(*report.terminal) - seen_.struck));
  }

  void LookAtCause(const std::string& who, const RankReport& report) {
    if (row_.cause.empty() || row_.cause == RankReport::kDestroyed) row_.cause = report.ended;
    if (report.ended == RankReport::kDestroyed) {
      if (!expected_.may_end_clean && !expected_.must_end_clean) {
        Blame(absl::StrCat(who, " ended clean"));
      }
      return;
    }
    if (expected_.must_end_clean) {
      Blame(absl::StrCat(who, " failed: ", report.ended));
      return;
    }
    const std::optional<std::string> cause = Found(report.ended, expected_.cause);
    if (!cause.has_value()) {
      Blame(absl::StrCat(who, " names another cause: ", report.ended));
    } else if (!cause_.empty() && *cause != cause_) {
      Blame(absl::StrCat(who, " names not the same cause: ", report.ended));
    } else {
      cause_ = *cause;
    }
  }

  // There is nobody who could say how its group ended.
  bool EndsItsProcess() const {
    return cell_.fault == Fault::kKill || cell_.fault == Fault::kNeverStarted ||
           cell_.fault == Fault::kExit || cell_.fault == Fault::kThrow;
  }

  const FaultCell& cell_;
  const FaultObservation& seen_;
  const FaultExpectation expected_;
  FaultRow row_;
  std::string cause_;
  std::vector<std::string> left_;
  std::vector<std::string> wrong_;
};

}  // namespace

FaultRow FaultRow::Of(const FaultCell& cell, absl::string_view verdict, absl::string_view why) {
  FaultRow row;
  row.fault = std::string(Name(cell.fault));
  row.phase = std::string(Name(cell.phase));
  row.backend = cell.backend;
  row.n = cell.n;
  row.verdict = std::string(verdict);
  row.why = std::string(why);
  return row;
}

std::string FaultRow::ToJson() const {
  nlohmann::ordered_json json;
  json["fault"] = fault;
  json["phase"] = phase;
  json["backend"] = backend;
  json["n"] = n;
  json["ms"] = ms;
  json["known_ms"] = known_ms;
  json["cause"] = cause;
  json["left"] = left;
  json["verdict"] = verdict;
  if (!why.empty()) json["why"] = why;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

absl::StatusOr<FaultRow> FaultRow::FromJson(absl::string_view text) {
  const nlohmann::json json =
      nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError(absl::StrCat("no row of JSON: ", text));
  FaultRow row;
  const auto get = [&json](const char* name, auto* value) {
    using Value = std::remove_pointer_t<decltype(value)>;
    if (json.contains(name)) *value = json[name].get<Value>();
  };
  get("fault", &row.fault);
  get("phase", &row.phase);
  get("backend", &row.backend);
  get("n", &row.n);
  get("ms", &row.ms);
  get("known_ms", &row.known_ms);
  get("cause", &row.cause);
  get("left", &row.left);
  get("verdict", &row.verdict);
  get("why", &row.why);
  return row;
}

FaultRow Judge(const FaultCell& cell, const FaultObservation& seen) {
  return Judgement(cell, seen).Make();
}

}  // namespace muster::testing

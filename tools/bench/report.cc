#include "muster/tools/bench/report.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "muster/tools/bench/samples.h"
#include "muster/tools/bench/statistics.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace bench {
namespace {

constexpr absl::string_view kOwn = "muster/";
constexpr absl::string_view kOwnBase = "muster/reference";

// The goals: create and destroy against raw gloo's, and when a SIGKILL is known.
constexpr absl::string_view kCreateDestroyCase = "create_destroy_";
constexpr absl::string_view kGoalRatio = "muster/gloo : gloo";
constexpr double kMostOfGloo = 1.2;
constexpr absl::string_view kSigkillCase = "sigkill_";
constexpr double kSigkillMilliseconds = 50;

// Each of Muster's subjects and each that is not; among its own, each and muster/reference.
std::vector<std::pair<std::string, std::string>> Compared(
    const std::vector<std::string>& subjects) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& subject : subjects) {
    if (!absl::StartsWith(subject, kOwn)) continue;
    for (const std::string& to : subjects) {
      if (subject != to && (!absl::StartsWith(to, kOwn) || to == kOwnBase)) {
        pairs.emplace_back(subject, to);
      }
    }
  }
  return pairs;
}

// In the order in which they come.
void AddNew(const std::string& name, std::vector<std::string>* names) {
  if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
}

}  // namespace

std::string Report::RatioRow::Name() const {
  return absl::StrCat(suite, "/", case_name, ": ", what);
}

absl::Status Report::Add(const std::string& suite, const std::vector<std::string>& subjects,
                         const std::vector<Sample>& samples) {
  std::vector<std::string> cases;
  std::vector<std::string> units;
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<double>> by_row;
  for (const Sample& sample : samples) {
    AddNew(sample.case_name, &cases);
    AddNew(sample.unit, &units);
    by_row[{sample.case_name, sample.subject, sample.unit}].push_back(sample.value);
  }
  if (cases.empty()) return absl::InvalidArgumentError(absl::StrCat(suite, " has no samples"));
  for (const std::string& case_name : cases) {
    std::map<std::string, double> times;
    for (const std::string& subject : subjects) {
      for (const std::string& unit : units) {
        const absl::StatusOr<Summary> summary = Summarize(by_row[{case_name, subject, unit}]);
        if (!summary.ok()) {
          return absl::InvalidArgumentError(
              absl::StrCat(suite, "/", case_name, ", ", subject, ": ", summary.status().message()));
        }
        rows_.push_back({suite, case_name, subject, unit, *summary});
        if (unit == kMicroseconds) times[subject] = summary->median;
      }
    }
    for (const auto& [subject, to] : Compared(subjects)) {
      RatioRow row{suite, case_name, absl::StrCat(subject, " : ", to)};
      const absl::StatusOr<double> ratio = Ratio(times[subject], times[to]);
      if (!ratio.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(row.Name(), ": ", ratio.status().message()));
      }
      row.value = *ratio;
      ratios_.push_back(std::move(row));
    }
  }
  return absl::OkStatus();
}

std::vector<Report::Goal> Report::Goals() const {
  std::optional<Goal> ratio;
  for (const RatioRow& row : ratios_) {
    if (!absl::StartsWith(row.case_name, kCreateDestroyCase) || row.what != kGoalRatio) continue;
    if (ratio.has_value() && ratio->value >= row.value) continue;
    ratio = {row.what, row.value, kMostOfGloo, "", row.case_name};
  }
  std::optional<Goal> sigkill;
  for (const Row& row : rows_) {
    if (!absl::StartsWith(row.case_name, kSigkillCase) || !absl::StartsWith(row.subject, kOwn)) {
      continue;
    }
    const double ms = row.summary.median / 1000;
    if (sigkill.has_value() && sigkill->value >= ms) continue;
    sigkill = {"SIGKILL known after", ms, kSigkillMilliseconds, "ms",
               absl::StrCat(row.case_name, ", ", row.subject)};
  }
  std::vector<Goal> goals;
  if (ratio.has_value()) goals.push_back(*std::move(ratio));
  if (sigkill.has_value()) goals.push_back(*std::move(sigkill));
  return goals;
}

std::string Report::Table() const {
  std::string table;
  std::string heading;
  for (const Row& row : rows_) {
    const std::string name = absl::StrCat(row.suite, "/", row.case_name);
    if (name != heading) {
      absl::StrAppendFormat(&table, "%s%-40s %12s %12s %12s\n", heading.empty() ? "" : "\n", name,
                            "median", "p10", "p90");
      heading = name;
    }
    absl::StrAppendFormat(&table, "  %-38s %12.1f %12.1f %12.1f %s\n", row.subject,
                          row.summary.median, row.summary.p10, row.summary.p90, row.unit);
  }
  for (const auto& [peer, reason] : left_out_) absl::StrAppend(&table, peer, ": ", reason, "\n");
  const bool mpi_cycles = std::any_of(rows_.begin(), rows_.end(), [](const Row& row) {
    return absl::StartsWith(row.case_name, kCreateDestroyCase) && row.subject == "openmpi";
  });
  if (mpi_cycles) {
    absl::StrAppend(&table,
                    "openmpi: dup and free of a connected communicator, no connections are made\n");
  }
  absl::StrAppend(&table,
                  "\nratios of medians (X : Y 0.5 means that X takes half the time of Y)\n");
  for (const RatioRow& row : ratios_) {
    absl::StrAppendFormat(&table, "  %-70s %8.3f\n", row.Name(), row.value);
  }
  for (const Goal& goal : Goals()) {
    const std::string unit = goal.unit.empty() ? "" : absl::StrCat(" ", goal.unit);
    absl::StrAppendFormat(&table, "goal: %s %.2f%s <= %g%s, %s (the worst: %s)\n", goal.what,
                          goal.value, unit, goal.at_most, unit, goal.kept() ? "kept" : "missed",
                          goal.where);
  }
  return table;
}

std::string Report::Json() const {
  nlohmann::ordered_json json;
  json["seed"] = run_.seed;
  json["repetitions"] = run_.repetitions;
  json["left_out"] = nlohmann::ordered_json::object();
  for (const auto& [peer, reason] : left_out_) json["left_out"][peer] = reason;
  json["results"] = nlohmann::ordered_json::array();
  for (const Row& row : rows_) {
    json["results"].push_back({{"suite", row.suite},
                               {"case", row.case_name},
                               {"subject", row.subject},
                               {"median", row.summary.median},
                               {"p10", row.summary.p10},
                               {"p90", row.summary.p90},
                               {"unit", row.unit},
                               {"samples", row.summary.samples}});
  }
  json["ratios"] = nlohmann::ordered_json::object();
  for (const RatioRow& row : ratios_) json["ratios"][row.Name()] = row.value;
  json["goals"] = nlohmann::ordered_json::array();
  for (const Goal& goal : Goals()) {
    json["goals"].push_back({{"goal", goal.what},
                             {"value", goal.value},
                             {"at_most", goal.at_most},
                             {"unit", goal.unit},
                             {"kept", goal.kept()},
                             {"where", goal.where}});
  }
  return absl::StrCat(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n");
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content) {
  // In the same folder: a file is renamed only within its file system.
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  int error = fd < 0 ? errno : 0;
  if (fd >= 0) {
    for (size_t done = 0; error == 0 && done < content.size();) {
      const ssize_t wrote = write(fd, content.data() + done, content.size() - done);
      if (wrote >= 0) {
        done += static_cast<size_t>(wrote);
      } else if (errno != EINTR) {
        error = errno;
      }
    }
    // mkostemp's 0600 is not what a user's files have; the umask cannot be read without writing it.
    if (error == 0 && fchmod(fd, 0644) != 0) error = errno;
    if (close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
    if (error == 0) return absl::OkStatus();
    unlink(temporary.c_str());
  }
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot write ", path, ": give a file in a folder that is there"));
}

}  // namespace bench
}  // namespace muster

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
#include <string>
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

bool IsCompared(absl::string_view subject, absl::string_view to) {
  if (!absl::StartsWith(subject, kOwn) || subject == to) return false;
  return !absl::StartsWith(to, kOwn) || to == kOwnBase;
}

}  // namespace

absl::Status Report::Add(const std::string& suite, const std::vector<std::string>& subjects,
                         const std::vector<Sample>& samples) {
  std::vector<std::string> cases;
  std::map<std::pair<std::string, std::string>, std::vector<double>> by_row;
  for (const Sample& sample : samples) {
    if (std::find(cases.begin(), cases.end(), sample.case_name) == cases.end()) {
      cases.push_back(sample.case_name);
    }
    by_row[{sample.case_name, sample.subject}].push_back(sample.us);
  }
  if (cases.empty()) return absl::InvalidArgumentError(absl::StrCat(suite, " has no samples"));
  for (const std::string& case_name : cases) {
    std::map<std::string, double> medians;
    for (const std::string& subject : subjects) {
      const absl::StatusOr<Summary> summary = Summarize(by_row[{case_name, subject}]);
      if (!summary.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(suite, "/", case_name, ", ", subject, ": ", summary.status().message()));
      }
      rows_.push_back({suite, case_name, subject, *summary});
      medians[subject] = summary->median;
    }
    for (const std::string& subject : subjects) {
      for (const std::string& to : subjects) {
        if (!IsCompared(subject, to)) continue;
        const std::string name = absl::StrCat(suite, "/", case_name, ": ", subject, " : ", to);
        const absl::StatusOr<double> ratio = Ratio(medians[subject], medians[to]);
        if (!ratio.ok()) {
          return absl::InvalidArgumentError(absl::StrCat(name, ": ", ratio.status().message()));
        }
        ratios_.emplace_back(name, *ratio);
      }
    }
  }
  return absl::OkStatus();
}

std::string Report::Table() const {
  std::string table;
  std::string heading;
  for (const Row& row : rows_) {
    const std::string name = absl::StrCat(row.suite, "/", row.case_name);
    if (name != heading) {
      absl::StrAppendFormat(&table, "%s%-48s %10s %10s %10s\n", heading.empty() ? "" : "\n", name,
                            "median us", "p10 us", "p90 us");
      heading = name;
    }
    absl::StrAppendFormat(&table, "  %-46s %10.1f %10.1f %10.1f\n", row.subject, row.summary.median,
                          row.summary.p10, row.summary.p90);
  }
  for (const auto& [peer, reason] : left_out_) absl::StrAppend(&table, peer, ": ", reason, "\n");
  const bool mpi_cycles = std::any_of(rows_.begin(), rows_.end(), [](const Row& row) {
    return row.suite == "lifecycle" && row.subject == "openmpi";
  });
  if (mpi_cycles) {
    absl::StrAppend(
        &table, "openmpi: dup and free of a connected communicator, no connections are ", "made\n");
  }
  absl::StrAppend(&table,
                  "\nratios of medians (X : Y 0.5 means that X takes half the time of Y)\n");
  for (const auto& [name, ratio] : ratios_) {
    absl::StrAppendFormat(&table, "  %-70s %8.3f\n", name, ratio);
  }
  return table;
}

std::string Report::Json() const {
  nlohmann::ordered_json json;
  json["seed"] = run_.seed;
  json["ranks"] = run_.ranks;
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
                               {"unit", "us"},
                               {"samples", row.summary.samples}});
  }
  json["ratios"] = nlohmann::ordered_json::object();
  for (const auto& [name, ratio] : ratios_) json["ratios"][name] = ratio;
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

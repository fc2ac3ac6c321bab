// The results of a run: a table for a terminal, JSON for programs.
//
//   {"seed": 7, "ranks": 2, "repetitions": 30, "left_out": {"torch": "not installed, ..."},
//    "results": [{"suite": "lifecycle", "case": "create_destroy_2_ranks",
//                 "subject": "muster/gloo", "median": 1510.2, "p10": 1390.1, "p90": 1892.0,
//                 "unit": "us", "samples": 30}, ...],
//    "ratios": {"lifecycle/create_destroy_2_ranks: muster/gloo : gloo": 1.12, ...}}
#ifndef MUSTER_TOOLS_BENCH_REPORT_H_
#define MUSTER_TOOLS_BENCH_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "muster/tools/bench/samples.h"
#include "muster/tools/bench/statistics.h"

namespace muster {
namespace bench {

class Report {
 public:
  struct Run {
    uint64_t seed = 0;
    int ranks = 0;
    int repetitions = 0;
  };
  explicit Report(const Run& run) : run_(run) {}

  // "torch", "not installed, left out (...)".
  void LeaveOut(const std::string& peer, const std::string& reason) { left_out_[peer] = reason; }

  // The samples of one suite, in rows by case and subject in the order of `subjects`.
  // InvalidArgument when a case has no sample of one of them.
  absl::Status Add(const std::string& suite, const std::vector<std::string>& subjects,
                   const std::vector<Sample>& samples);

  // The table, then the ratios: of medians, of each of Muster's subjects to each that is not, and
  // among its own to muster/reference.
  std::string Table() const;
  std::string Json() const;

 private:
  struct Row {
    std::string suite;
    std::string case_name;
    std::string subject;
    Summary summary;  // us
  };

  Run run_;
  std::map<std::string, std::string> left_out_;
  std::vector<Row> rows_;
  std::vector<std::pair<std::string, double>> ratios_;
};

// Replaces `path`, or leaves it as it was: never half of it. The error names the path.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_REPORT_H_

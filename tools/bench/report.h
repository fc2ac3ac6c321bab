// The results of a run: a table for a terminal, JSON for programs.
//
//   {"seed": 7, "repetitions": 30, "left_out": {"torch": "not installed, ..."},
//    "results": [{"suite": "lifecycle", "case": "create_destroy_2_ranks",
//                 "subject": "muster/gloo", "median": 1510.2, "p10": 1390.1, "p90": 1892.0,
//                 "unit": "us", "samples": 30}, ...],
//    "ratios": {"lifecycle/create_destroy_2_ranks: muster/gloo : gloo": 0.6, ...},
//    "goals": [{"goal": "muster/gloo : gloo", "value": 0.6, "at_most": 1.2, "unit": "",
//               "kept": true, "where": "create_destroy_2_ranks"}, ...]}
#ifndef MUSTER_TOOLS_BENCH_REPORT_H_
#define MUSTER_TOOLS_BENCH_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
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
    int repetitions = 0;
  };
  explicit Report(const Run& run) : run_(run) {}

  // "torch", "not installed, left out (...)".
  void LeaveOut(const std::string& peer, const std::string& reason) { left_out_[peer] = reason; }

  // Samples of one suite, in rows by case, subject (in the order of `subjects`) and unit.
  // InvalidArgument when a case has no sample of one of them.
  absl::Status Add(const std::string& suite, const std::vector<std::string>& subjects,
                   const std::vector<Sample>& samples);

  // The table; the ratios, of medians of times, of each of Muster's subjects to each that is not,
  // and among its own to muster/reference; a line for each goal that was measured.
  std::string Table() const;
  std::string Json() const;

 private:
  struct Row {
    std::string suite;
    std::string case_name;
    std::string subject;
    std::string unit;
    Summary summary;
  };
  struct RatioRow {
    std::string suite;
    std::string case_name;
    std::string what;  // "muster/gloo : gloo"
    double value = 0;

    std::string Name() const;
  };
  // What this project holds itself to, and the worst that was measured of it.
  struct Goal {
    std::string what;
    double value = 0;
    double at_most = 0;
    std::string unit;
    std::string where;

    bool kept() const { return value <= at_most; }
  };
  std::vector<Goal> Goals() const;

  Run run_;
  std::map<std::string, std::string> left_out_;
  std::vector<Row> rows_;
  std::vector<RatioRow> ratios_;
};

// Replaces `path`, or leaves it as it was: never half of it. The error names the path.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_REPORT_H_

// What was seen of a job with a fault, and whether the contract holds: a row of fault_matrix.json.
// Pure.
#ifndef MUSTER_TESTING_CONTRACT_FAULT_ROW_H_
#define MUSTER_TESTING_CONTRACT_FAULT_ROW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/testing/contract/fault_cell.h"

namespace muster::testing {

// What a rank said. Times are of the host's steady clock, in nanoseconds.
struct RankReport {
  bool in_place = false;            // its group has come to where the fault strikes
  std::optional<int64_t> known;     // when it learned of the failure
  std::optional<int64_t> terminal;  // when its group had ended
  std::string ended;                // kDestroyed, kNeverBegan, or the cause; "": it did not say
  std::string left;                 // what its process held then beyond what it had before
  std::string exit;                 // "exited with code 0"

  static constexpr char kDestroyed[] = "destroyed";
  static constexpr char kNeverBegan[] = "it never began";
  static constexpr char kNothing[] = "nothing";
};

struct FaultObservation {
  std::string trouble;  // why there is no more to see
  int64_t struck = 0;   // when the fault happened; 0: it did not
  std::vector<RankReport> ranks;
  std::vector<std::string> left;  // after the job: processes, keys, files, ports
};

// One row of the report.
struct FaultRow {
  static constexpr char kOk[] = "ok";
  static constexpr char kFailed[] = "failed";
  static constexpr char kNoSense[] = "no sense";
  static constexpr char kSkipped[] = "skipped";

  std::string fault;
  std::string phase;
  std::string backend;
  int n = 0;
  double ms = 0;      // from the fault until the last survivor's group had ended
  std::string cause;  // that the first survivor names
  std::string left;   // "nothing"
  std::string verdict;
  std::string why;      // of every verdict but ok
  double known_ms = 0;  // until the last survivor knew

  static FaultRow Of(const FaultCell& cell, absl::string_view verdict, absl::string_view why);

  std::string ToJson() const;  // on one line
  static absl::StatusOr<FaultRow> FromJson(absl::string_view text);
};

FaultRow Judge(const FaultCell& cell, const FaultObservation& seen);

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_FAULT_ROW_H_

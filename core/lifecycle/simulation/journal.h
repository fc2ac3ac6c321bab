// The readable schedule of a run: one line per step, with time, rank, input and actions.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_JOURNAL_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_JOURNAL_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/group_action.h"
#include "muster/core/lifecycle/simulation/checker.h"

namespace muster::simulation {

// "connect generation 3 within 1s"
std::string Describe(const Action& action);
std::string Describe(const Actions& actions);
// "OK", or the code and the message.
std::string Describe(const absl::Status& status);
// "rank 0, attempt 2 of 'train', generation 3, ready"
std::string Describe(const Life& life);

class Journal {
 public:
  explicit Journal(bool enabled) : enabled_(enabled) {}

  bool enabled() const { return enabled_; }
  void Write(absl::Time now, int rank, absl::string_view what);
  void Write(absl::Time now, int rank, absl::string_view input, const Actions& actions);
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  const bool enabled_;
  std::vector<std::string> lines_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_JOURNAL_H_

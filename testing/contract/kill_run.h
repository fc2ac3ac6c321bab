// A job whose processes are killed at random moments and started again, over and over, while its
// ranks make a group of one name, use it and close it without a pause.
#ifndef MUSTER_TESTING_CONTRACT_KILL_RUN_H_
#define MUSTER_TESTING_CONTRACT_KILL_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace muster::testing {

struct KillPlan {
  std::string backend;
  int ranks = 3;
  int kills = 0;
  uint64_t seed = 0;  // of who is killed, when, and when it comes back

  // What is wrong on purpose, for a test of the run itself.
  enum class Plant {
    kNothing,
    kStopped,      // who should be killed is stopped: no peer can name it
    kOtherBlamed,  // the store is told that another rank was killed as well
  };
  Plant plant = Plant::kNothing;
};

struct KillReport {
  std::vector<std::string> wrong;  // a line each; the run ends with the first round that has any
  int kills = 0;
  std::map<std::string, int> moments;  // what the group of who was killed was doing: how often
  std::vector<absl::Duration> delays;  // from a kill to each failure that names it

  // "200 kills (ready 81, connecting 40, ...); named after 4.1 ms in the median, 31 ms at most"
  std::string ToString() const;
};

// The process has one thread. Ends with nothing left.
KillReport RunKills(const KillPlan& plan);

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_KILL_RUN_H_

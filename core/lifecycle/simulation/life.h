// What is known of one group on one rank. The attempt keeps it, the checker judges it.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_LIFE_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_LIFE_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/state.h"
#include "muster/core/store/store.h"

namespace muster::simulation {

struct Life {
  // When something began, for who counts only the time in which the process ran.
  struct Since {
    absl::Time time = absl::InfiniteFuture();
    absl::Duration stopped;  // until then
  };
  Since From(absl::Time now) const { return {now, stopped}; }
  // Less than nothing when it has not begun.
  absl::Duration Lasted(const Since& since, absl::Time now) const {
    return now - since.time - (stopped - since.stopped);
  }

  std::string name;
  int era = 0;  // of the store
  int rank = 0;
  uint64_t incarnation = 0;  // of its process
  int number = 0;            // of the attempt in that process
  GroupState state = GroupState::kCreated;
  Since started;
  Since entered;                                        // the state
  Since works;                                          // in a collective
  Since proposed;                                       // a replacement, and had no answer yet
  Since votes;                                          // on a replacement
  absl::Duration stopped;                               // its process, all in all
  absl::Time awake = absl::InfinitePast();              // since it was stopped last
  absl::Duration close_timeout = absl::ZeroDuration();  // the longest that its owner gave
  std::map<int64_t, absl::Duration> heard_timeouts;     // the longest of its peers, by generation
  int64_t generation = 0;
  Revision meeting = 0;  // the gather in which the ranks met, whatever the protocol made of it
  std::vector<uint64_t> members;  // incarnations, once they have met
  // Collectives beyond this one are to be refused.
  int64_t last_allowed = std::numeric_limits<int64_t>::max();
  int leases = 0;
  bool connected = false;  // the backend was asked to
  bool released = false;   // it said that nothing is held
  bool drained = false;    // asked to let its work end: nobody closes otherwise, but a replacement
  bool was_ready = false;
  bool was_closing = false;
  bool dead = false;  // with its process, before it ended
  // What its owner, its program or its backend gave as a cause, and it took.
  std::set<std::string> given;
  absl::Time suspects_since = absl::InfiniteFuture();
  // Why its rank knows less than the others, or later: the contract excuses it for that time.
  bool lost_store = false;
  absl::Time excused_until = absl::InfinitePast();
  std::optional<absl::Status> cause;
  bool excused_cause = false;  // was, when its cause became known
  int aborts = 0;
  int finalizations = 0;
  int drains = 0;
  int residues = 0;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_LIFE_H_

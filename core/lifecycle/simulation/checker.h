// The promises of docs/lifecycle.md, checked after every step of a simulated run.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_CHECKER_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_CHECKER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/group_protocol.h"
#include "muster/core/lifecycle/group_record.h"
#include "muster/core/lifecycle/simulation/scenario.h"
#include "muster/core/lifecycle/state.h"

namespace muster::simulation {

// What is known of one group on one rank. The process keeps it, the checker judges it.
struct Life {
  int rank = 0;
  uint64_t incarnation = 0;  // of its process
  int number = 0;            // of the attempt in that process
  GroupState state = GroupState::kCreated;
  absl::Time started = absl::InfiniteFuture();
  absl::Time entered;                                   // the state
  absl::Duration paused;                                // since then: the process was stopped
  absl::Duration close_timeout = absl::ZeroDuration();  // the longest that its owner gave
  std::map<int64_t, absl::Duration> heard_timeouts;     // the longest of its peers, by generation
  int64_t generation = 0;
  Revision meeting = 0;  // the gather in which the ranks met, whatever the protocol made of it
  bool was_ready = false;
  bool was_closing = false;
  bool was_paused = false;
  bool lost_store = false;
  bool dead = false;  // with its process, before it ended
  std::optional<absl::Status> cause;
  int aborts = 0;
  int finalizations = 0;
  int drains = 0;
  int residues = 0;
};

// How often things happened, so that a test can tell that they did.
struct Tally {
  int64_t steps = 0;
  int64_t lives = 0;
  int64_t ready = 0;
  int64_t destroyed = 0;
  int64_t aborted = 0;
  int64_t causes_shared = 0;  // generations whose cause two ranks or more reported
  int64_t dead = 0;
  int64_t residues = 0;
  int64_t lost_store = 0;
  int64_t refused_proposals = 0;
  int64_t accepted_proposals = 0;
  int64_t collectives = 0;
  absl::Duration slowest_recovery;
  void Add(const Tally& other);
};

class Checker {
 public:
  explicit Checker(const Scenario& scenario) : scenario_(scenario) {}

  // The first violation: "L4: ...", or "".
  const std::string& violation() const { return violation_; }
  void Violate(absl::string_view what) {
    if (violation_.empty()) violation_ = std::string(what);
  }

  // --- while it runs
  void OnRecord(Revision revision, const GroupRecord& record);
  // From here on a generation leaves traces: addresses, sockets, keys.
  void OnConnect(const Life& life, const Agreement& agreement);
  void OnEnter(Life& life, const action::Enter& enter, absl::Time now);
  void OnCause(Life& life, const absl::Status& cause);
  void OnBackendAborted(Life& life);
  void OnFinalized(Life& life);
  // A collective was let in, or came to its end well.
  void OnWorkAccepted(const Life& life, int64_t number);
  // All ranks have met. Who has given up by then must tell the others.
  void OnMet(Life& life, Revision meeting, absl::Time now);
  // Its process died or lost its way to the store: it will tell nobody.
  void OnMute(const Life& life, absl::Time now);
  // Its process was stopped, perhaps for longer than its own bounds: it promises nothing any more,
  // and the others have their own timeouts.
  void OnStopped(const Life& life);
  // L1: nobody stays anywhere longer than the timeouts allow.
  void CheckBounds(const Life& life, absl::Time now);

  // From now on owners are told to close, whatever their groups are doing.
  void OnCalm() { calm_ = true; }

  // --- when it has ended
  void OnEnded(const Life& life) { ended_.push_back(life); }
  void CheckCauses();

  Tally& tally() { return tally_; }

 private:
  void OnGone(const Life& life, absl::Time now);

  struct Generation {
    std::vector<uint64_t> incarnations;
    absl::Time first_gone = absl::InfiniteFuture();
    absl::Status cause;  // the first in the record
  };

  const Scenario scenario_;
  std::string violation_;
  bool calm_ = false;
  std::map<Revision, std::string> records_;
  std::map<int64_t, Generation> generations_;
  // L4: by meeting and rank, until when every other member must know that this one is gone.
  std::map<Revision, std::map<int, absl::Time>> known_by_;
  std::map<uint64_t, int64_t> latest_of_;  // generation, by the incarnation of a process
  std::vector<Life> ended_;
  Tally tally_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_CHECKER_H_

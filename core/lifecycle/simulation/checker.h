// The promises of docs/lifecycle.md, checked after every step of a simulated run. README.md says
// which check keeps which.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_CHECKER_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_CHECKER_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/group_action.h"
#include "muster/core/lifecycle/group_record.h"
#include "muster/core/lifecycle/simulation/scenario.h"
#include "muster/core/lifecycle/simulation/tally.h"
#include "muster/core/lifecycle/state.h"
#include "muster/core/store/session_record.h"

namespace muster::simulation {

// What is known of one group on one rank. The attempt keeps it, the checker judges it.
struct Life {
  std::string name;
  int era = 0;  // of the store
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
  // Collectives beyond this one are to be refused.
  int64_t last_allowed = std::numeric_limits<int64_t>::max();
  absl::Time works_since = absl::InfiniteFuture();
  int leases = 0;
  bool connected = false;  // the backend was asked to
  bool drained = false;    // asked to let its work end: nobody closes otherwise, but a replacement
  bool was_ready = false;
  bool was_closing = false;
  bool dead = false;    // with its process, before it ended
  bool guilty = false;  // its owner, its program or its backend gave it a cause to fail
  // Reasons why its rank knows less than the others, or later. The contract excuses these.
  bool was_paused = false;
  bool lost_store = false;
  bool store_was_late = false;
  bool excused() const { return was_paused || lost_store || store_was_late; }
  std::optional<absl::Status> cause;
  int aborts = 0;
  int finalizations = 0;
  int drains = 0;
  int residues = 0;
};

class Checker {
 public:
  explicit Checker(const Scenario& scenario) : scenario_(scenario) {}

  // The first violation: "L4: ...", or "".
  const std::string& violation() const { return violation_; }
  void Violate(absl::string_view what) {
    if (violation_.empty()) violation_ = std::string(what);
  }

  // --- the store
  void OnRecord(int era, const std::string& name, Revision revision, const GroupRecord& record,
                absl::Time now);
  void OnSessionLost(const SessionRecord& session);
  // The process of that incarnation gave its peers a reason: it died, left, lost the store or was
  // stopped for too long.
  void OnProcessAtFault(uint64_t incarnation) { at_fault_.insert(incarnation); }

  // --- a group
  // From here on a generation leaves traces: addresses, sockets, keys.
  void OnConnect(Life& life, const Agreement& agreement);
  void OnEnter(Life& life, const action::Enter& enter, absl::Time now);
  void OnSuspicion(const Life& life, absl::Time now);
  // Its rank has heard that a member's session was lost.
  void OnLossKnown(const Life& life, absl::Time now);
  // The window of its suspicion may be over at once.
  void OnClockLeap(const Life& life) { Of(life).first_suspicion = absl::InfinitePast(); }
  void OnCause(Life& life, const absl::Status& cause);
  void OnBackendAborted(Life& life);
  void OnFinalized(Life& life);
  // It was told.
  void OnStoreLost(const Life& life);
  // Its owner closes it, having begun so many collectives; or proposes to replace it.
  void OnOwnerCloses(Life& life, int64_t issued);
  void OnPropose(const Life& life);
  // Collectives up to that one are to end, those beyond it are refused.
  void OnDrain(Life& life, int64_t sequence);
  void OnWorkAccepted(Life& life, int64_t number, absl::Time now);
  // All ranks have met. Who has given up by then must tell the others.
  void OnMet(Life& life, Revision meeting, absl::Time now);
  // Its process died or lost its way to the store: it will tell nobody.
  void OnMute(const Life& life, absl::Time now);
  // Its process was stopped, perhaps for longer than its own bounds: it promises nothing any more,
  // and the others have their own timeouts.
  void OnStopped(const Life& life);
  // L1 and L4: nobody stays anywhere longer than the timeouts allow.
  void CheckBounds(const Life& life, absl::Time now);

  // From now on owners are told to close, whatever their groups are doing.
  void OnCalm() { calm_ = true; }

  // --- when it has ended
  void OnEnded(const Life& life) { ended_.push_back(life); }
  void CheckCauses();

  Tally& tally() { return tally_; }

 private:
  struct Generation {
    std::vector<uint64_t> incarnations;
    std::set<int> guilty;  // ranks
    bool closed = false;   // by an owner
    bool proposed = false;
    absl::Time first_suspicion = absl::InfiniteFuture();
    absl::Time loss_known = absl::InfiniteFuture();  // to a rank that can tell the others
    absl::Status cause;                              // the first in the record
    std::map<std::string, std::string> told;  // causes, each with an example of who reported it
    int reports = 0;
  };
  // What one store was told.
  struct Era {
    std::map<std::string, std::map<Revision, std::string>> records;  // by the group's name
    std::map<std::pair<std::string, int64_t>, Generation> generations;
    // L4: by meeting and rank, until when every other member must know that this one is gone.
    std::map<Revision, std::map<int, absl::Time>> known_by;
  };

  Generation& Of(const Life& life) {
    return eras_[life.era].generations[{life.name, life.generation}];
  }
  void OnGone(const Life& life, absl::Time now);
  void CheckKnown(const Life& life, absl::Time now);
  void CheckRecordedCause(int era, const std::string& name, const GroupRecord& record,
                          absl::Time now);
  void CheckBlame(const std::string& name, int64_t number, const Generation& generation);
  void CheckReport(const Life& life);
  void CheckGaveBack(const Life& life);

  const Scenario scenario_;
  std::string violation_;
  bool calm_ = false;
  std::map<int, Era> eras_;
  // Generation, by the incarnation of a process and the group's name.
  std::map<std::pair<uint64_t, std::string>, int64_t> latest_of_;
  std::set<uint64_t> at_fault_;
  std::vector<Life> ended_;
  Tally tally_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_CHECKER_H_

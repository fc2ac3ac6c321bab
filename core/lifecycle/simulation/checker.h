// The promises of docs/lifecycle.md, checked after every step of a simulated run. README.md says
// which check keeps which.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_CHECKER_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_CHECKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/group_action.h"
#include "muster/core/lifecycle/group_record.h"
#include "muster/core/lifecycle/simulation/life.h"
#include "muster/core/lifecycle/simulation/scenario.h"
#include "muster/core/lifecycle/simulation/tally.h"
#include "muster/core/store/session_record.h"

namespace muster::simulation {

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
  void OnSessionLost(const SessionRecord& session, absl::Time now);
  // It answers nobody until then: what is judged by its news is judged later.
  void OnStoreLate(absl::Time now, absl::Time until);

  // --- a process
  // It gives its peers a reason to blame it: it dies, leaves, loses the store or is stopped for too
  // long. Until then it may be declared lost.
  void OnProcessAtFault(uint64_t incarnation, absl::Time now,
                        absl::Time until = absl::InfiniteFuture());
  // From now on its rank has no process, or one that nobody hears; the store knows it `within`.
  struct Gone {
    int era = 0;
    int rank = 0;
    uint64_t incarnation = 0;
    absl::Duration within;
    // Who waits for it in a meeting hears that nobody comes: not where it only says goodbye.
    bool ends_meetings = true;
  };
  void OnProcessGone(const Gone& gone, absl::Time now);
  // It is back before the store missed it.
  void OnProcessBack(const Gone& gone, absl::Time now);
  // The store hears nothing from a process for so long, and then declares it lost.
  absl::Duration SilenceBound() const;

  // --- a group
  // From here on a generation leaves traces: addresses, sockets, keys.
  void OnConnect(Life& life, const Agreement& agreement);
  void OnEnter(Life& life, const action::Enter& enter, absl::Time now);
  static void OnSuspicion(Life& life, absl::Time now);
  // Its rank has heard that a member's session was lost.
  void OnLossKnown(const Life& life, absl::Time now);
  void OnWriteRecord(const Life& life, const GroupRecord& record, absl::Time now);
  void OnCause(Life& life, const absl::Status& cause, absl::Time now);
  void OnBackendAborted(Life& life);
  void OnFinalized(Life& life);
  // It was told.
  void OnStoreLost(const Life& life);
  // Its owner closes it, having begun so many collectives; or proposes to replace it.
  void OnOwnerCloses(Life& life, int64_t issued);
  void OnPropose(Life& life, absl::Time now);
  // Collectives up to that one are to end, those beyond it are refused.
  void OnDrain(Life& life, int64_t sequence);
  void OnWorkAccepted(Life& life, int64_t number, absl::Time now);
  // All ranks have met. Who has given up by then must tell the others.
  void OnMet(Life& life, Revision meeting, absl::Time now);
  // Its process dies or loses its way to the store: what it has not told by now it tells nobody.
  void OnMute(const Life& life);
  // Its process is stopped; and goes on.
  void OnStopped(const Life& life);
  void OnResumed(Life& life, absl::Duration stop, absl::Time now);
  // Its process's clock leaps: what it waits for ends at once, answers that are on their way too.
  void OnClockLeap(Life& life, absl::Duration by, absl::Time now);
  // L1 and L4: nobody stays anywhere longer than the timeouts allow, or without news.
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
    absl::Time met = absl::InfiniteFuture();
    std::map<int, std::set<std::string>> given;  // causes, by the rank that gave them
    bool closed = false;                         // by an owner
    bool proposed = false;
    std::map<int, absl::Time> loss_known;     // to ranks that can tell the others
    absl::Status cause;                       // the first in the record
    std::map<std::string, std::string> told;  // causes, each with an example of who reported it
    int reports = 0;
  };
  // When the latest process of a rank ended, and by when all who wait for that rank must know it.
  struct End {
    absl::Time time;
    absl::Time known_by;
  };
  // What one store was told.
  struct Era {
    std::map<std::string, std::map<Revision, std::string>> records;  // by the group's name
    std::map<std::pair<std::string, int64_t>, Generation> generations;
    // L4: by meeting and rank, until when every other member must know that this one has failed.
    std::map<Revision, std::map<int, absl::Time>> known_by;
    std::map<int, End> ends;  // by rank
  };
  struct Fault {
    absl::Time since;
    absl::Time until;
  };

  Generation& Of(const Life& life) {
    return eras_[life.era].generations[{life.name, life.generation}];
  }
  bool Excused(const Life& life, absl::Time now) const {
    return scenario_.rough || life.lost_store || now <= life.excused_until ||
           now <= store_late_until_;
  }
  // News of the store, from there until a rank has acted on it, some of it held up.
  absl::Duration NewsBound() const { return 6 * scenario_.latency(); }
  void OnFailed(const Life& life, absl::Time now);
  // What this rank has not told yet it tells by then.
  void PostponeTo(const Life& life, absl::Time by);
  void CheckKnown(const Life& life, absl::Time now);
  void CheckMeeting(const Life& life, absl::Time now);
  void CheckRecordedCause(int era, const std::string& name, const GroupRecord& record,
                          absl::Time now);
  void CheckBlame(const std::string& name, int64_t number, const Generation& generation);
  void CheckReport(const Life& life);
  bool VoteMayTakeTheClose(const Life& life);
  void CheckGaveBack(const Life& life);

  const Scenario scenario_;
  std::string violation_;
  bool calm_ = false;
  absl::Time store_late_until_ = absl::InfinitePast();
  std::map<int, Era> eras_;
  // Generation, by the incarnation of a process and the group's name.
  std::map<std::pair<uint64_t, std::string>, int64_t> latest_of_;
  std::map<uint64_t, std::vector<Fault>> at_fault_;
  // By incarnation: until when all who share a group with it must know that it is gone.
  std::unordered_map<uint64_t, absl::Time> gone_;
  std::vector<Life> ended_;
  Tally tally_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_CHECKER_H_

// What a rank knows of its peers' sessions and of the groups' records, kept up to date by the
// store.
#ifndef MUSTER_CORE_GROUP_STORE_NEWS_H_
#define MUSTER_CORE_GROUP_STORE_NEWS_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "muster/core/lifecycle/group_record.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"

namespace muster {

// One watch each on the sessions, the records and the questions about late operations serves all
// groups of a process, so making a group costs no watch of its own. Lives on the store's executor:
// every method but the constructor is called there, and so are the listeners.
class StoreNews : public std::enable_shared_from_this<StoreNews> {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnRecord(Revision revision, const GroupRecord& record) = 0;
    virtual void OnSession(const SessionRecord& session) = 0;
    virtual void OnStoreLost(const absl::Status& why) = 0;
    // A rank of "train/1" asks how far the others are (operation_census.h).
    virtual void OnAsked(absl::string_view group, Revision revision) = 0;
  };

  explicit StoreNews(Store* store) : store_(store) {}

  // `ready` runs when both snapshots are in, or with the error.
  void Start(absl::AnyInvocable<void(absl::Status)> ready);
  // Nothing is heard after it.
  void Stop();

  // Tells the record of `name` as far as it is known, and from then on every change of it and of
  // the sessions.
  void Subscribe(const std::string& name, Listener* listener);
  // Tells every session that is known, but for those that have left: who did before a group began
  // may come again for it, be it from a new process.
  void TellSessions(Listener* listener);
  void Unsubscribe(Listener* listener);
  // The answer to a compare-and-set is ahead of the watch, and may be the last thing that a group
  // hears: the next one of that name must know it, or its ranks agree on a generation that was.
  // Tells nobody: the news is on its way.
  void Learn(const std::string& name, const Entry& entry);

 private:
  void OnSessions(absl::StatusOr<std::vector<WatchEvent>> events);
  void OnRecords(absl::StatusOr<std::vector<WatchEvent>> events);
  void OnLate(absl::StatusOr<std::vector<WatchEvent>> events);
  void OnLost(const absl::Status& why);
  void TellReady(absl::Status status);

  Store* const store_;
  absl::AnyInvocable<void(absl::Status)> ready_;
  bool have_sessions_ = false;
  bool have_records_ = false;
  Store::WatchId session_watch_ = 0;
  Store::WatchId record_watch_ = 0;
  Store::WatchId late_watch_ = 0;
  absl::Status lost_;
  std::map<int, SessionRecord> sessions_;
  struct Known {  // older news never takes the place of newer
    Revision revision = 0;
    GroupRecord record;
  };
  std::map<std::string, Known> records_;  // by the group's name
  std::map<Listener*, std::string> listeners_;
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_STORE_NEWS_H_

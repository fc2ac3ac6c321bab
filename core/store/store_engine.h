// The store's server without its surroundings: no thread, no socket, no clock.
//
// Sessions, keys, watches, gathers and the judgement of who is dead. What happens comes in as calls
// with the time, what follows goes out through each session's Sink. The memory store, the TCP
// server and the simulator put the same engine into three surroundings.
//
//   StoreEngine engine(options);
//   absl::StatusOr<StoreEngine::SessionId> session =
//       engine.Open(info, heartbeat_timeout, &sink, now);
//   engine.Handle(*session, request, now);     // answers through sink.Send, perhaps later
//   engine.Tick(now);                          // at engine.NextTick() or soon after
#ifndef MUSTER_CORE_STORE_STORE_ENGINE_H_
#define MUSTER_CORE_STORE_STORE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/store/gather_table.h"
#include "muster/core/store/key_space.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"

namespace muster::store_internal {

// Thread-compatible. Order: what one session is sent is in the order in which it was decided.
class StoreEngine {
 public:
  using SessionId = uint64_t;  // never reused

  // Where a session's answers and news go. Called inside the engine's calls; must not call the
  // engine.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void Send(const Response& response) = 0;
    // The answer to a gather, whose values are those of `result`, one for all its ranks: what is
    // made of them once may be shared. By default each gets a copy.
    virtual void SendGathered(const Response& answer, const GatherTable::Result& result);
  };

  struct Options {
    int world_size = 1;
    // How long a session outlives its connection, so that a launcher may say what became of the
    // process before "its connection closed" is the reason.
    absl::Duration loss_grace = absl::ZeroDuration();
    // Of a store that one rank serves until it leaves: whoever has left in good order is not let in
    // again, since what it wants is the next store, at the same address.
    bool ends_with_its_host = false;
    // Told of each session that begins or is lost, inside the engine's calls: must not call the
    // engine. May be empty.
    std::function<void(const SessionRecord&)> on_session;
    KeySpace::Limits keys;
    GatherTable::Limits gathers;
    size_t watches_per_session = kWatchesPerSession;
  };

  explicit StoreEngine(const Options& options);
  StoreEngine(const StoreEngine&) = delete;
  StoreEngine& operator=(const StoreEngine&) = delete;

  // Errors: InvalidArgument (another world size than ours, a rank outside of it), AlreadyExists (a
  // live session has this rank: names both), FailedPrecondition (this incarnation was declared
  // lost), Unavailable (this store is no more for this rank: try again until the next one is
  // there). `sink` must stay until Disconnect.
  absl::StatusOr<SessionId> Open(const SessionInfo& info, absl::Duration heartbeat_timeout,
                                 Sink* sink, absl::Time now);

  // Anything a session sends is a heartbeat, too. Requests of a session that ended are answered
  // with FailedPrecondition and the reason; those of an unknown one are dropped.
  void Handle(SessionId session, const Request& request, absl::Time now);

  // The connection is gone, and the sink with it. A live session is lost for `reason`, after the
  // grace.
  void Disconnect(SessionId session, absl::string_view reason, absl::Time now);

  // Somebody who knows (a launcher) says that the rank's process is dead. The first cause stays: no
  // effect on a session that has ended. A rank that never came gets a record of its loss as well.
  void DeclareLost(int rank, absl::string_view reason);

  // Open refused `info` for good, with `why`. Where that means that a rank of this job will not
  // come (one that was told another world size; one that has another's number, while ranks are
  // missing), nobody waits for it in vain: it, or all that are missing, count as lost until they do
  // come.
  void NoteRefusal(const SessionInfo& info, const absl::Status& why);

  // Deadlines, graces, heartbeats. A session's silence is counted from one tick to the next, and at
  // most two regular intervals each: when this server itself was paused, everybody has a fresh
  // chance.
  void Tick(absl::Time now);

  // When Tick is to be called next; InfiniteFuture when nothing waits for time.
  absl::Time NextTick() const;

  // The id of the live session of `rank`; 0 when there is none.
  SessionId LiveSession(int rank) const;

  // The latest record of each rank that ever came or was declared lost.
  std::vector<SessionRecord> Records() const;
  // The keys that start with `prefix`, as they stand.
  std::vector<Entry> Entries(absl::string_view prefix) const;

  // Sessions that have neither left nor been lost; those in their grace included.
  size_t open_sessions() const;

  // What is held, for tests that look for leaks.
  size_t keys() const { return keys_.size(); }
  size_t waiting_gathers() const { return gathers_.waiting_rounds(); }

 private:
  struct Session {
    SessionRecord record;
    Sink* sink = nullptr;  // null once disconnected
    absl::Duration heartbeat_timeout = absl::InfiniteDuration();
    absl::Duration silence = absl::ZeroDuration();
    absl::Time grace_end = absl::InfiniteFuture();
    std::string loss_reason;  // for when the grace ends
    std::map<uint64_t, std::string> watches;
  };
  using Liveness = SessionRecord::Liveness;

  absl::Status CheckOpen(const SessionInfo& info);
  void HandleLive(SessionId id, Session& session, const Request& request, absl::Time now);
  void Refuse(const Session& session, const Request& request);
  void End(SessionId id, Liveness liveness, absl::string_view reason);
  void Publish(const SessionRecord& record);
  void PublishUnlessKnown(const SessionRecord& record);
  void Remember(const SessionRecord& record);
  void SendNews();
  void UpdateBeat();

  void Get(const Request& request, Response& answer);
  void Set(SessionId id, const Request& request, Response& answer);
  void CompareAndSet(SessionId id, const Request& request, Response& answer);
  void Watch(Session& session, const Request& request);
  void Gather(SessionId id, Session& session, const Request& request, absl::Time now);
  void AnswerWaiter(const GatherTable::Waiter& waiter, const absl::Status& status,
                    const GatherTable::Result& result);

  const Options options_;
  KeySpace keys_;
  GatherTable gathers_;
  SessionId last_session_ = 0;
  std::map<SessionId, Session> sessions_;  // open ones, and ended ones that are still connected
  std::map<int, SessionId> of_rank_;       // open ones
  std::map<int, SessionRecord> records_;
  std::map<int, std::deque<SessionRecord>> fenced_;  // a bounded number for each rank
  absl::Duration beat_ = absl::InfiniteDuration();   // the shortest interval of a live session
  absl::Time last_tick_ = absl::InfinitePast();
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_STORE_ENGINE_H_

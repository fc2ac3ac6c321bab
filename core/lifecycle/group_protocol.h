// The life of one generation of one group on one rank, as pure code: events in, actions out. No
// I/O, no thread, no clock.
//
//   GroupProtocol protocol(options);
//   Execute(protocol.Start(now));               // Meet: gather the introductions in the store
//   Execute(protocol.OnMet(now, result));       // WriteRecord, on rank 0: the generation lives
//   Execute(protocol.OnRecord(now, 7, record)); // Connect: let the backend build its communicator
//
// The group's runtime executes actions against the real store, backend and clock; the simulator
// against imitations. Everything that is agreed goes through one key of the store, the group's
// record, by compare-and-set (who closes, why it failed: the first write wins, so every rank
// reports the same), and through gathers (who is there, who is connected, who has drained).
//
// What the protocol relies on. The simulator shows that it is enough, and that most of it is
// needed:
//  - Actions are executed in order and before the next input, and no input is given while they
//    are: answers are posted.
//  - Answers and news of the store are given in the order in which the store sent them,
//    gathers, compare-and-sets and watches together. Requests reach it in the order of the
//    actions, also across the protocols of one process (the Withdraw of one generation before
//    the Meet of the next).
//  - Start comes after the first batch of the watches on the sessions and on the record. What
//    they said of the record is given to OnRecord before Start; so is what an answer to an earlier
//    WriteRecord said, which is ahead of the watch. What they said of sessions is given to
//    OnSession after Start, but for those that have left: whatever a process left for was before
//    this attempt, and an exit would fail each attempt until the rank is here again. A watch is
//    on a prefix: "group/train" also tells of "group/train2", which is another group's.
//  - WriteRecord has a deadline (close_timeout is right; in the set-up, what is left of that when
//    it is more) and exactly one answer. So has every gather, also after a Withdraw.
//  - A watch that ends with an error is the loss of the store (also when the store says that
//    this session is fenced): OnStoreLost, once.
//  - OnReleased comes once nothing is held, at once where nothing was.
//  - While voting() the group is not handed out to a new holder.
#ifndef MUSTER_CORE_LIFECYCLE_GROUP_PROTOCOL_H_
#define MUSTER_CORE_LIFECYCLE_GROUP_PROTOCOL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/lifecycle/agreement.h"
#include "muster/core/lifecycle/group_action.h"
#include "muster/core/lifecycle/group_record.h"
#include "muster/core/lifecycle/state.h"
#include "muster/core/lifecycle/transition_table.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"

namespace muster {

// What a failure is known to be.
enum class Certainty {
  kCause,      // a rank's own error, a session loss declared by the store, an expired timeout
  kSuspicion,  // a transport error: held for cause_window, in case its cause becomes known
};

// A backend says Unavailable for a lost peer or a broken transport, which is a suspicion; whatever
// else it says is this rank's own error.
Certainty CertaintyOf(const absl::Status& backend_error);

// Not thread-safe: one executor feeds it. Each input returns what to do, in order.
class GroupProtocol {
 public:
  struct Options {
    std::string name;
    int rank = 0;
    int size = 1;
    // The rank of the job that each has; empty: its own number. Everything that is said, here and
    // to the peers, speaks of ranks of the job.
    std::vector<int> members;
    Introduction introduction;
    absl::Duration setup_timeout = absl::Seconds(30);
    // An earlier end of the set-up, for a caller who had to wait before it could begin.
    absl::Time setup_by = absl::InfiniteFuture();
    absl::Duration close_timeout = absl::Seconds(5);
    absl::Duration cause_window = absl::Milliseconds(200);
  };

  explicit GroupProtocol(Options options);

  GroupState state() const { return machine_.state(); }
  int64_t generation() const { return agreement_.generation; }  // 0 before the ranks have met
  const Agreement& agreement() const { return agreement_; }
  // OK until the cause of a failure is known for good.
  const absl::Status& cause() const { return cause_; }
  // "train/1", or "train" before the ranks have met.
  std::string id() const;
  // The end of a set-up that is under way.
  absl::Time setup_by() const { return setup_by_; }
  // Whether a vote on a replacement is under way: the group must not be handed out until it ended.
  bool voting() const { return voting_; }

  // --- what the owner wants
  Actions Start(absl::Time now);
  // `issued`: the last collective that was started here. `timeout` reaches the peers: one that has
  // not closed drains for the longer of it and its own close_timeout, one that has keeps to its
  // own.
  Actions Close(absl::Time now, absl::Duration timeout, int64_t issued);
  // Asks all ranks to give the name free for another identity. `wanted` says what differs. Ignored
  // unless ready and while a vote is under way: that one's end, ProposalRefused or the end of the
  // group, is the answer too.
  Actions Propose(absl::Time now, const std::string& wanted);
  // `bound`: of the abort, where close_timeout is more than the caller has.
  Actions Fail(absl::Time now, absl::Status why, Certainty certainty,
               absl::Duration bound = absl::InfiniteDuration());
  // The owner has no more time: a close that is under way fails now, as at the end of its own, and
  // an abort keeps to `bound` from now on.
  Actions Hurry(absl::Time now, absl::Duration bound);

  // --- what happened here
  Actions OnConnected(absl::Time now, absl::Status result);
  Actions OnDrained(int64_t sequence);
  // `holders`: who holds a lease here, "" for nobody.
  Actions OnHolders(const std::string& holders);
  Actions OnFinalized(absl::Time now, absl::Status result);
  Actions OnReleased();
  Actions OnTimer(absl::Time now);

  // --- what the store says
  Actions OnMet(absl::Time now, absl::StatusOr<GatherResult> result);
  Actions OnAllConnected(absl::Time now, absl::StatusOr<GatherResult> result);
  Actions OnVotes(absl::Time now, absl::StatusOr<GatherResult> result);
  Actions OnRecord(absl::Time now, Revision revision, const GroupRecord& record);
  Actions OnRecordWritten(absl::Time now, absl::StatusOr<CompareAndSetResult> result);
  Actions OnSession(absl::Time now, const SessionRecord& session);
  Actions OnStoreLost(absl::Time now, const absl::Status& why);

 private:
  void Apply(GroupEvent event);
  template <class T>
  void Do(T action) {
    actions_.push_back(std::move(action));
  }
  Actions Finish();
  std::string InSetUpTimeout() const;
  absl::Status DidNotMeet(const absl::Status& gathered) const;
  int InJob(int rank) const { return options_.members.empty() ? rank : options_.members[rank]; }
  int me() const { return InJob(options_.rank); }
  // Of the rank of the job; -1: it is no member.
  int Member(int in_job) const;

  void FailNow(absl::Time now, absl::Status why, Certainty certainty);
  void CloseIsLate(absl::Time now);
  void EndWithin(absl::Time now, absl::Duration bound);
  void TellOfFailure(absl::Time now, GroupState failed_in);
  void ResolveUnlessAnswered(absl::Time now);
  void Resolve(absl::Status cause);
  bool OwnError() const;  // cause_ is
  void Withdraw();
  void EndAbortWhenDone();
  // The meeting was given up for a process whose end was old news: its rank is here again, as
  // another process, and is not to blame.
  void ExcuseSuccessor();
  void HandleIntent(absl::Time now);
  void BeginDraining(absl::Time now, absl::Duration timeout, int64_t sequence,
                     std::string closed_by);
  // A rank that closes before the work after which another one closed will never do it.
  void CheckSameWork(absl::Time now, int64_t issued);
  // A broadcast, say, may end on its root though the rank that closes never came to it. Whether the
  // two closes meet before or after must not decide what they say.
  void CheckSameEnd(absl::Time now, absl::Span<const int64_t> finished);
  void VoteWhenDrained();
  void SendVote(const std::string& holders);
  void AgreeToClose(absl::Time now);
  // The backend did not finalize, for this reason.
  void FailToClose(absl::Time now, const absl::Status& why);
  // A member's session, after the agreement to close.
  void OnSessionOfClosed(absl::Time now, const SessionRecord& session);
  void TakeRecord(absl::Time now, Revision revision, const GroupRecord& record);
  void HandleRecord(absl::Time now);
  bool Superseded() const;
  void Reconcile(absl::Time now);

  const Options options_;
  const std::string scope_;
  StateMachine machine_;
  Actions actions_;
  Agreement agreement_;

  // The group's record as last seen, and what we want to write into it.
  Revision record_revision_ = 0;
  GroupRecord record_;
  bool write_in_flight_ = false;
  bool writing_cause_ = false;              // what is in flight holds candidate_
  bool want_live_ = false;                  // rank 0 writes down that the generation lives
  std::optional<CloseIntent> want_intent_;  // without its number
  bool want_cause_ = false;                 // candidate_

  std::string pending_gather_;  // its key
  bool withdrawn_ = false;      // it, and its answer is still to come
  bool want_connect_ = false;   // once the record knows the generation

  // Closing.
  int64_t handled_intent_ = 0;  // its number
  bool voting_ = false;
  bool drained_ = false;
  int64_t drained_sequence_ = 0;
  bool agreed_ = false;       // all did: what goes wrong now is this rank's alone
  std::string lost_closing_;  // whose process has ended since, and how

  // Failing.
  absl::Status candidate_;
  Certainty certainty_ = Certainty::kCause;
  // Whose end the meeting was given up for: while it is set, candidate_ is about that.
  std::optional<SessionRecord> gave_up_for_;
  bool waits_for_names_ = false;  // candidate_ is a timeout that does not say who is missing
  bool recorded_ = false;         // a cause is in the record: what comes is from there
  bool found_here_ = false;       // candidate_ is not
  absl::Status cause_;
  bool released_ = false;
  bool residue_named_ = false;
  bool store_lost_ = false;

  absl::Time setup_by_ = absl::InfiniteFuture();
  absl::Time close_by_ = absl::InfiniteFuture();
  absl::Time suspicion_until_ = absl::InfiniteFuture();
  absl::Time resolve_by_ = absl::InfiniteFuture();
  absl::Time resolve_at_last_ = absl::InfiniteFuture();  // whatever is being written
  absl::Time written_at_ = absl::InfinitePast();         // the cause that is in flight
  absl::Time release_by_ = absl::InfiniteFuture();
  absl::Time failed_at_ = absl::InfinitePast();
  absl::Time woken_at_ = absl::InfiniteFuture();
};

}  // namespace muster

#endif  // MUSTER_CORE_LIFECYCLE_GROUP_PROTOCOL_H_

// Runs the life of one generation on this rank: executes what GroupProtocol decides, and lets
// operations through.
//
// Three kinds of threads meet here. The control thread runs the protocol and everything named
// On...; callers' threads run blocking operations, or wait; helper threads run what blocks inside a
// backend. No lock is held over anything that blocks.
//
// A call into a backend that does not return within the bounds is left behind as residue, with its
// thread. Each such thread holds this object, which holds all that the thread may touch when it
// comes back after all, be it after the pool is gone: the executor drops what comes late, and the
// way to the store is cut.
#ifndef MUSTER_CORE_GROUP_GROUP_RUNTIME_H_
#define MUSTER_CORE_GROUP_GROUP_RUNTIME_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/work.h"
#include "muster/core/group/connect_store.h"
#include "muster/core/group/group_spec.h"
#include "muster/core/group/helper_thread.h"
#include "muster/core/group/operation_census.h"
#include "muster/core/group/operation_gate.h"
#include "muster/core/group/operation_watch.h"
#include "muster/core/group/store_news.h"
#include "muster/core/lifecycle/group_protocol.h"
#include "muster/core/lifecycle/split.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/observe/observer.h"
#include "muster/core/platform/cancellation.h"
#include "muster/core/platform/executor.h"

namespace muster {

// Thread-safe. Made by a pool, held by its entry and by leases; keeps itself alive until the group
// is terminal.
class GroupRuntime : public std::enable_shared_from_this<GroupRuntime>,
                     private StoreNews::Listener {
 public:
  struct Options {
    GroupSpec spec;
    absl::Time setup_by = absl::InfiniteFuture();  // when that is before spec.setup_timeout
    int rank = 0;                                  // in the group
    int size = 1;
    // What messages call what this rank waits in while the ranks meet; "" when it may come to other
    // meetings meanwhile (see Gathering).
    std::string waits_in;
    Introduction introduction;
    std::string bind_address;
    std::shared_ptr<Executor> executor;  // drops what comes after the pool's end
    Store* store = nullptr;              // used on the control thread, and by Connect
    std::shared_ptr<StoreNews> news;
    BackendRegistry* backends = nullptr;
    Observer* observer = nullptr;  // may be null
    std::string error_file;        // for this rank's own error; "": none
    // All on the control thread. The answer to a proposal to replace the group: who holds it here,
    // "" for nobody; the group must not be handed out then until the vote has ended. `in_flight`
    // tells of the operations that are under way, "" for none: it is asked once nobody holds the
    // group, so that none can begin after the answer.
    using InFlight = std::function<std::string()>;
    std::function<std::string(const InFlight& in_flight)> ask_holders;
    std::function<void()> vote_ended;
    // Something that a waiting Acquire looks at has changed.
    std::function<void()> changed;
    // The backend has left residue: lists it until the result is let go of.
    std::function<std::shared_ptr<const LiveGroup>(LiveGroup)> left_behind;
  };

  // One operation: what to call it, and how to run it.
  struct Operation {
    absl::string_view name;  // "all_reduce"; static storage
    OperationGate::Kind kind = OperationGate::Kind::kCollective;
    absl::AnyInvocable<absl::Status(Communicator&, const OperationOptions&)> run;
  };

  explicit GroupRuntime(Options options);
  ~GroupRuntime() override;

  // --- the life
  void Start();
  // OK once ready; else the cause, when the set-up has been undone.
  absl::Status WaitReady();
  void BeginClose(absl::Duration timeout);
  // `bound`: of the abort, where the spec's close_timeout is longer.
  void BeginAbort(const absl::Status& cause, absl::Duration bound = absl::InfiniteDuration());
  // Nothing where the set-up has ended.
  void BeginAbortOfSetUp(const absl::Status& cause);
  // Whoever closes has no more time: it becomes an abort, within `bound`.
  void Hurry(absl::Duration bound);
  // Returns when the group is terminal, which every Begin... above brings about within its bound:
  // OK when it was destroyed, else the cause. Every caller gets the same.
  absl::Status WaitTerminal();
  bool TerminalBy(absl::Time deadline) const;
  // Starts the vote on giving the name free. It ends with the group, or `refused` gets the reason
  // (on the control thread).
  void Propose(const std::string& wanted, std::function<void(const absl::Status&)> refused);

  // Gathers what the ranks say of a Split. `done` runs on the control thread, and never when the
  // executor has been detached. It ends with an error as soon as the group is not ready.
  void AgreeOnSplit(std::string value, std::string waits_in, absl::Time deadline,
                    Store::Callback<GatherResult> done);
  std::string split_key() const { return SplitKey(scope_, generation()); }
  // What `operation` answers now that the group is not usable; waits for the cause of its abort.
  absl::Status WhyNot(absl::string_view operation) const;

  // Nobody holds the group here any more, or its last operation has ended: a proposal to replace it
  // may be waiting for that.
  void OnHeldNoMore();

  // --- the work
  absl::Status Run(Operation operation, absl::Duration timeout);
  Work RunAsync(Operation operation, absl::Duration timeout);

  // --- what it is. Constant once it is ready.
  const GroupSpec& spec() const { return options_.spec; }
  int rank() const { return options_.rank; }
  // Whom messages, faults and observers mean.
  int rank_in_job() const { return RankInJob(options_.rank); }
  int RankInJob(int rank) const {
    return options_.spec.members.empty() ? rank : options_.spec.members[rank];
  }
  int size() const { return options_.size; }
  std::string id() const;
  int64_t generation() const;
  std::string backend() const;  // resolved; "" before the ranks have met
  Capabilities capabilities() const;
  GroupState state() const;
  absl::Status status() const;

 private:
  // StoreNews::Listener, on the control thread.
  void OnRecord(Revision revision, const GroupRecord& record) override;
  void OnSession(const SessionRecord& session) override;
  void OnStoreLost(const absl::Status& why) override;
  void OnAsked(absl::string_view group, Revision revision) override;

  // Posts a step of the protocol to the control thread.
  void Step(absl::AnyInvocable<Actions(GroupProtocol&, absl::Time)> step);
  void Execute(Actions actions);
  void Do(action::Meet& action);
  void Do(action::Confirm& action);
  void Do(action::Vote& action);
  void Do(action::Withdraw& action);
  void Do(action::WriteRecord& action);
  void Do(action::Connect& action);
  void Do(action::Drain& action);
  void Do(action::AskHolders& action);
  void Do(action::Finalize& action);
  void Do(action::AbortBackend& action);
  void Do(action::NameResidue& action);
  void Do(action::WakeAt& action);
  void Do(action::Enter& action);
  void Do(action::CauseResolved& action);
  void Do(action::ProposalRefused& action);

  // What blocks, and for what each has a thread: an abort is for a Connect or a Finalize that
  // blocks, and the question what is held for an abort that does.
  enum Helper { kLife, kAbort, kHeld, kHelpers };

  // On the control thread. Runs `task`, which is inside `call`, on that helper's thread and `then`
  // back here; when there is no thread, `then` alone with the error.
  void RunOnHelper(Helper helper, absl::string_view call, absl::AnyInvocable<absl::Status()> task,
                   absl::AnyInvocable<void(absl::Status)> then);
  // What helpers and operations are inside of.
  std::vector<std::string> Inside() const ABSL_LOCKS_EXCLUDED(mutex_);
  void AbortCalls(const absl::Status& cause) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReleaseWhenUnused();
  // `held`: by the backend, as far as it says so.
  void LeaveBehind(absl::string_view held) ABSL_LOCKS_EXCLUDED(mutex_);
  std::string AskHolders();
  void AnswerHolders(const std::string& holders);
  void LetGo();
  void LeaveSplit();
  // Those operations that wait behind one that does not return.
  void FinishQueued(const absl::Status& cause) ABSL_LOCKS_EXCLUDED(queue_mutex_);
  // After whatever may have been the last to come back from a backend that was given up: lets the
  // communicator end, on a thread of its own, since that may block for ever; then nothing of the
  // group is left behind any more.
  void CrossOutResidue() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status RunOne(Operation& operation, const OperationGate::Ticket& ticket,
                      absl::Duration timeout);
  // On the control thread: the backend has not returned from it.
  void OnLate(absl::string_view label, absl::Duration timeout);
  // On the control thread: `then` gets, within kCensus, who has not entered that collective; "" for
  // one that is none, and where that cannot be found out.
  void AskWhoIsMissing(absl::string_view label, std::function<void(std::string)> then);
  std::string WhoIsMissing(
      const std::string& label);  // of an operation's thread, for which it waits
  OperationCensus& Census();
  absl::Status WaitCause() const;
  absl::Status Labelled(absl::string_view label, const absl::Status& status) const;
  // Gives the queue an operation that the gate has let in; when it cannot, the ticket is not used
  // up and the error is what the operation says after Abandon.
  absl::Status Enqueue(Operation& operation, const OperationGate::Ticket& ticket,
                       absl::Duration timeout, const std::shared_ptr<WorkState>& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_);
  // Of a call of the backend; Internal for an exception that it lets out.
  absl::Status CatchAll(absl::FunctionRef<absl::Status()> call) const;
  // What the backend said, of the ranks that it connects, said of ranks of the job.
  absl::Status SaidOfTheJob(const absl::Status& status) const;
  // What the others read of a failure that this rank found. A cause is its fault; a suspicion is
  // only what it saw, and who reads it may be the one that it names.
  absl::Status OfThisRank(const absl::Status& why) const;
  // One that cannot be run: the group fails, and the cause is to be its result.
  void GiveUp(const OperationGate::Ticket& ticket, absl::Status why);
  // Now, or once the cause is known: waits for nothing.
  void FinishWithCause(std::string label, std::shared_ptr<WorkState> work)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Left(const OperationGate::Ticket& ticket, bool failed);
  void RunQueue();

  // Contributes to a gather of this group.
  void GatherMembers(const std::string& key, absl::string_view value, std::string waits_in,
                     absl::Time deadline, Store::Callback<GatherResult> done);

  const Options options_;
  const std::string scope_;  // of the store's keys
  OperationGate gate_;
  std::shared_ptr<OperationWatch> watch_;    // since it is ready
  std::shared_ptr<OperationCensus> census_;  // since somebody asked; the control thread's

  // The control thread's alone.
  GroupProtocol protocol_;
  Executor::TimerId timer_ = 0;
  struct {
    HelperThread thread;
    bool busy = false;
  } helpers_[kHelpers];
  bool release_wanted_ = false;
  bool release_started_ = false;
  absl::Duration residue_within_;  // how long the backend had
  bool left_behind_ = false;
  bool splitting_ = false;  // the ranks agree on a Split
  Cancellation connect_cancellation_;
  std::unique_ptr<GroupConnectStore> connect_store_;
  std::shared_ptr<GroupRuntime> self_;  // while the group is not terminal
  std::vector<std::function<void(const absl::Status&)>> refused_;  // of those who wait for a vote
  std::string closed_by_;
  std::atomic<bool> asked_{false};  // for the holders, and not answered yet; read by operations
  uint64_t questions_ = 0;          // so far

  mutable absl::Mutex mutex_;
  GroupState state_ ABSL_GUARDED_BY(mutex_) = GroupState::kCreated;
  int64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string backend_ ABSL_GUARDED_BY(mutex_);
  Capabilities capabilities_ ABSL_GUARDED_BY(mutex_);
  absl::Status cause_ ABSL_GUARDED_BY(mutex_);                   // known for good
  std::string helper_inside_[kHelpers] ABSL_GUARDED_BY(mutex_);  // what it calls; "" for nothing
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;   // no operation takes the communicator any more
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;  // threads were left behind
  bool crossing_out_ ABSL_GUARDED_BY(mutex_) = false;  // and all but the last have come back
  std::shared_ptr<const LiveGroup> residue_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Communicator> communicator_ ABSL_GUARDED_BY(mutex_);
  bool was_ready_ ABSL_GUARDED_BY(mutex_) = false;
  struct GivenUp {
    std::string label;
    std::shared_ptr<WorkState> work;
  };
  std::vector<GivenUp> wait_for_cause_ ABSL_GUARDED_BY(mutex_);

  // The group's own thread, for asynchronous operations.
  struct Queued {
    Operation operation;
    OperationGate::Ticket ticket;
    absl::Duration timeout;
    std::shared_ptr<WorkState> work;
  };
  mutable absl::Mutex queue_mutex_;
  std::unique_ptr<HelperThread> queue_thread_ ABSL_GUARDED_BY(queue_mutex_);
  std::deque<Queued> queue_ ABSL_GUARDED_BY(queue_mutex_);
  bool queue_ends_ ABSL_GUARDED_BY(queue_mutex_) = false;
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_GROUP_RUNTIME_H_

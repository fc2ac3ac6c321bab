// What a GroupPool and its leases share: the groups by name, who holds them, and the way to the
// store.
#ifndef MUSTER_CORE_GROUP_POOL_CORE_H_
#define MUSTER_CORE_GROUP_POOL_CORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>  // NOLINT(build/c++11): ids, to tell threads apart
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "muster/core/group/detachable_executor.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/group_runtime.h"
#include "muster/core/group/job_connection.h"
#include "muster/core/lifecycle/pool_decision.h"
#include "muster/core/lifecycle/split.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/observe/observer.h"
#include "muster/core/platform/cancellation.h"

namespace muster {

class PoolCore;

// The pool's side of a lease.
class LeaseRecord final : private GroupSplitter {
 public:
  LeaseRecord(std::shared_ptr<PoolCore> core, std::shared_ptr<GroupRuntime> runtime, uint64_t id,
              const GroupSpec& spec);

  PoolCore& core() const { return *core_; }
  GroupRuntime& runtime() const { return *runtime_; }
  std::shared_ptr<GroupRuntime> shared_runtime() const { return runtime_; }
  uint64_t id() const { return id_; }
  Group& group() { return group_; }
  absl::Duration close_timeout() const { return spec_.close_timeout; }
  // Whether an exception is in flight that was not when the lease was made.
  bool unwinding() const;

 private:
  absl::StatusOr<GroupLease> Split(int color, int key, SourceLocation where) override;

  const std::shared_ptr<PoolCore> core_;
  const std::shared_ptr<GroupRuntime> runtime_;
  const uint64_t id_;
  const GroupSpec spec_;
  const int exceptions_at_birth_;
  Group group_;
};

// Thread-safe.
class PoolCore final : public std::enable_shared_from_this<PoolCore>,
                       public LivePool,
                       private Observer {
 public:
  PoolCore(const World& world, PoolOptions options, JobConnection connection);
  ~PoolCore() override;

  // Learns the sessions and records of the job by `deadline`. Before anything else.
  absl::Status Join(absl::Time deadline);

  // `cancellation`: null for none.
  absl::StatusOr<GroupLease> Acquire(const GroupSpec& asked, Cancellation* cancellation,
                                     SourceLocation where);
  std::vector<LiveGroup> LiveGroups() const override;
  // Of this pool's groups, as far as it was not given back since.
  std::vector<LiveGroup> Residues() const;
  PoolStatistics statistics() const;
  absl::Status Close(absl::Duration timeout);
  // What the pool's owner wants: the peers learn `rank 1 left: "<cause>"`.
  void AbortByOwner(const absl::Status& cause) { Abort(WeLeave(cause)); }
  // `cause` as it is: it names this rank already.
  void Abort(const absl::Status& cause);
  void BeginAbort(absl::string_view why) override;
  void AbortBecause(absl::string_view why) override;
  absl::Duration AbortBound() const override;
  bool RunsHere() const override { return on_control_thread(); }

  // --- leases, which know that a forked child is none of theirs
  void Release(LeaseRecord& lease);
  absl::Status CloseByHolder(LeaseRecord& lease, absl::Duration timeout);
  absl::Status CloseWithChildren(LeaseRecord& lease, absl::Duration timeout);
  // `spec`: of the lease that `parent` is split by.
  absl::StatusOr<GroupLease> Split(std::shared_ptr<GroupRuntime> parent, const GroupSpec& spec,
                                   int color, int key, SourceLocation where);
  void AbortByHolder(LeaseRecord& lease, const absl::Status& cause);

  const World& world() const { return world_; }
  const PoolOptions& options() const { return options_; }
  bool forked() const;             // in a child of the process that made the pool
  bool on_control_thread() const;  // which cannot wait for the pool
  std::string Holders() const;

 private:
  struct Holder {
    uint64_t id;
    std::string where;  // "trainer.cc:88"
    // Waits for the set-up. It holds the group like every other, so that the group is not taken
    // away between its set-up and its first use, but has no lease yet.
    bool waits = false;
    // Not a lease, but a group that was split from this one: it holds it while it lives.
    std::shared_ptr<GroupRuntime> child;

    bool ended() const { return child != nullptr && IsTerminal(child->state()); }
  };
  struct Entry {
    std::shared_ptr<GroupRuntime> runtime;
    std::string created_at;
    std::vector<Holder> holders;
    bool voting = false;                   // on its replacement, without a holder here
    bool ending = false;                   // closed here, though it may not know that yet
    std::shared_ptr<GroupRuntime> parent;  // that it was split from
    bool splitting = false;                // a thread is in its Split
  };

  // What the peers learn of a caller's abort: who left, and why. Never OK.
  absl::Status WeLeave(const absl::Status& cause) const;
  // "rank 1 (host b, pid 812) <why>"
  absl::Status WeEnd(absl::string_view why) const;
  // What an abort does without waiting.
  void BeginAbort(const absl::Status& cause,
                  const std::vector<std::shared_ptr<GroupRuntime>>& runtimes);

  void OnTransition(const TransitionEvent& event) override;  // of every group here

  // `spec` with members that this job has, and this rank among them; none where they are all.
  absl::StatusOr<GroupSpec> ForThisJob(const GroupSpec& spec) const;
  // Whether this thread is the only one so far that makes groups.
  bool MakesAlone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What messages say that this thread waits in while the ranks of `spec` meet; "" where other
  // threads of this rank make groups, too.
  std::string WaitsIn(const GroupSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  NamedGroup Look(const GroupSpec& spec) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  GroupLease AddHolder(Entry& entry, const GroupSpec& spec, SourceLocation where)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* EntryOf(const GroupRuntime& runtime) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nobody could acquire a child again: its name is the pool's own.
  bool ClosesIdle(const Entry& entry) const {
    return options_.close_idle_groups || entry.parent != nullptr;
  }
  // Those that hold it now, of all that do or wait to; and those of them with a lease.
  static std::vector<Holder> Holding(const std::vector<Holder>& holders);
  static std::vector<Holder> Leases(const std::vector<Holder>& holders);
  // Forgets the holder; gives its runtime when it was the last one.
  std::shared_ptr<GroupRuntime> RemoveHolder(const LeaseRecord& lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckLastHolder(const LeaseRecord& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddChild(Entry& parent, const std::string& name, std::shared_ptr<GroupRuntime> child)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void ForgetEndedChildren(Entry& entry);
  // Its descendants, each with who holds it.
  std::vector<std::string> DescribeChildren(const GroupRuntime& runtime)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Groups that were split from it and live, and those split from these, the youngest first.
  std::vector<std::shared_ptr<GroupRuntime>> DescendantsOf(const GroupRuntime& runtime)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A state of the group `name` has.
  void OnChanged(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::vector<SplitChoice>> GatherChoices(
      const std::shared_ptr<GroupRuntime>& parent, const SplitChoice& own, std::string waits_in,
      absl::Duration timeout, absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  static std::string JoinHolders(const std::vector<Holder>& holders);
  // Asks backends and the list of residue: not under a lock.
  Introduction IntroduceSelf(const GroupSpec& spec) ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<GroupRuntime> NewRuntime(const GroupSpec& spec, Introduction introduction,
                                           absl::Time setup_by)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes it the entry's, started; `waits` is the holder that waits for it.
  std::shared_ptr<GroupRuntime> MakeEntry(Entry& entry, const GroupSpec& spec,
                                          Introduction introduction, absl::Time setup_by,
                                          SourceLocation where, uint64_t* waits)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<const LiveGroup> LeaveBehind(LiveGroup left) ABSL_LOCKS_EXCLUDED(mutex_);
  // Under the lock when it begins to close: an Acquire waits for the end instead of getting it.
  void HandOutNoMore(const GroupRuntime& runtime) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `id`: of the holder that waits.
  absl::StatusOr<GroupLease> AwaitReady(const std::shared_ptr<GroupRuntime>& runtime,
                                        const GroupSpec& spec, uint64_t id,
                                        Cancellation* cancellation) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Propose(const std::shared_ptr<GroupRuntime>& runtime, const GroupSpec& spec,
                       const std::string& wanted, absl::Time deadline,
                       const Cancellation* cancellation) ABSL_LOCKS_EXCLUDED(mutex_);
  // OK, or what an Acquire that is cancelled before it has begun a set-up returns.
  absl::Status CheckGoesOn(const GroupSpec& spec, const Cancellation* cancellation) const;
  void StopAcquiring() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::shared_ptr<GroupRuntime>> Runtimes() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Leaves the store by `deadline`; where this rank serves it, the peers get until then to leave
  // it, too, unless the pool was aborted. Then the pool has ended with `result`.
  void End(const absl::Status& result, const std::string& reason, absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool open() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return life_ == Life::kOpen && !aborted_; }
  // FailedPrecondition on the control thread, which would wait for itself.
  absl::Status CheckMayWait(absl::string_view call) const;
  // The result of the end that another caller brings about.
  absl::Status AwaitEnd(absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const World world_;
  const PoolOptions options_;
  BackendRegistry& backends_;
  const uint64_t fork_generation_;
  JobConnection connection_;
  const std::shared_ptr<DetachableExecutor> executor_;  // the connection's
  std::shared_ptr<StoreNews> news_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;  // grows with whatever a waiting Acquire looks at
  uint64_t next_lease_ ABSL_GUARDED_BY(mutex_) = 1;
  // Who makes groups: the one thread that has so far, or several.
  std::optional<std::thread::id> maker_ ABSL_GUARDED_BY(mutex_);
  bool several_makers_ ABSL_GUARDED_BY(mutex_) = false;
  enum class Life {
    kOpen,
    kEnding,  // one caller of Close or Abort ends it, the others wait
    kEnded,   // and has left the store
  };
  Life life_ ABSL_GUARDED_BY(mutex_) = Life::kOpen;
  absl::Status end_result_ ABSL_GUARDED_BY(mutex_);
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;  // whoever ends it waits for no peer
  // Of the pool's end.
  struct Leaving {
    absl::Mutex mutex;
    bool silent ABSL_GUARDED_BY(mutex) = false;  // no watch is left
    bool done ABSL_GUARDED_BY(mutex) = false;    // the store has answered
    bool soon ABSL_GUARDED_BY(mutex) = false;    // the pool was aborted
  };
  std::shared_ptr<Leaving> leaving_ ABSL_GUARDED_BY(mutex_);
  PoolStatistics statistics_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<const LiveGroup>> residues_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Time> began_ ABSL_GUARDED_BY(mutex_);   // set-ups, by name
  std::map<std::string, absl::Time> ending_ ABSL_GUARDED_BY(mutex_);  // closes and aborts, by group
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_POOL_CORE_H_

// Where process groups live: made once, reused by whoever asks for the same, destroyed with the
// pool.
//
//   // In main, a test or a trainer: there is no global pool.
//   auto pool = muster::GroupPool::FromEnvironment();
//   muster::GroupSpec spec;
//   spec.name = "train";
//   absl::StatusOr<muster::GroupLease> group = (*pool)->Acquire(spec);
//   (*group)->AllReduce(muster::Buffer::Of(gradients), muster::ReduceOp::kAverage);
//   group->Close();   // or let the lease's and the pool's destructors do it, within their bounds
#ifndef MUSTER_CORE_GROUP_GROUP_POOL_H_
#define MUSTER_CORE_GROUP_GROUP_POOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/collective/backend.h"
#include "muster/core/group/group.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/group/group_spec.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/observe/observer.h"
#include "muster/core/platform/cancellation.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/source_location.h"
#include "muster/core/rendezvous/world.h"

namespace muster {

struct PoolOptions {
  // When the last lease of a group ends: keep the group for the next Acquire (false), or close it
  // everywhere (true).
  bool close_idle_groups = false;
  // Of the pool's end: what the destructor gives to Close(), and the most that an abort, here or at
  // exit, waits for a backend to give back what it holds, whatever the specs say; one that does not
  // gets another second to say what that is.
  absl::Duration close_timeout = absl::Seconds(5);
  // Beats each tenth of it; a rank that is silent for longer is lost. 10 ms or more;
  // absl::InfiniteDuration() for debuggers.
  absl::Duration heartbeat_timeout = absl::Seconds(10);
  // How long to look for the store.
  absl::Duration connect_timeout = absl::Seconds(30);
  BackendRegistry* backends = nullptr;  // null: BackendRegistry::Global()
  // Sees every transition, on the control thread, where nothing that waits may be called: Acquire
  // and Close answer FailedPrecondition there, Abort does not wait, and a pool that is destroyed
  // there is aborted and leaves its threads behind. Outlives the pool.
  Observer* observer = nullptr;

  // InvalidArgument naming the field, its value and what is accepted.
  absl::Status Validate() const;
};

// What a pool has done so far. Counts of this rank.
struct PoolStatistics {
  int64_t groups_created = 0;    // generations that became ready
  int64_t groups_reused = 0;     // Acquires answered with a live group, without communication
  int64_t groups_destroyed = 0;  // ended clean
  int64_t groups_aborted = 0;
  absl::Duration last_create;   // beginning of the set-up to ready, of the latest generation
  absl::Duration last_destroy;  // close requested to terminal
};

// Thread-safe. Blocking calls are bounded; each says by what. In a forked child its parent's pool
// does nothing, waits for nothing and locks nothing: Acquire and Close answer FailedPrecondition,
// and it has no groups and no statistics.
class GroupPool {
 public:
  // Finds out who started us and where the store is (rendezvous/world.h), and joins. Errors name
  // the variable or the address. Both arm the faults of MUSTER_FAULTS (core/fault/fault.h).
  static absl::StatusOr<std::unique_ptr<GroupPool>> FromEnvironment(PoolOptions options = {});
  static absl::StatusOr<std::unique_ptr<GroupPool>> Create(const World& world,
                                                           PoolOptions options = {});

  // Close(options.close_timeout), or Abort during unwinding and while a lease on a live group is
  // out.
  virtual ~GroupPool() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // A lease on the group that `spec` describes: the live one when its identity is equal (no
  // communication), else a new generation, made together with the same call on every rank. Blocks
  // until ready, at most spec.setup_timeout; a set-up that fails then is undone first, which takes
  // at most spec.cause_window + spec.close_timeout more (and a second where residue is left, as
  // with every end below). Errors:
  //   InvalidArgument     the spec is invalid, or the ranks asked for different ones: the field,
  //                       and who asked for what
  //   NotFound            the backend is not linked in: those that are
  //   FailedPrecondition  a group of this name with another identity is held, here or elsewhere:
  //                       holders and what differs; ranks wait for each other in different groups:
  //                       who for whom, in what; the pool is closed; called in a forked child or on
  //                       the control thread
  //   DeadlineExceeded    ranks that did not come, by number
  //   else                the cause of the failed set-up, the same on every rank; nothing is left
  //                       of it and a new attempt works at once
  absl::StatusOr<GroupLease> Acquire(const GroupSpec& spec,
                                     SourceLocation where = SourceLocation::Current()) {
    return AcquireAt(spec, nullptr, where);
  }
  // The same, which another thread may end by `cancellation.Cancel(cause)`, at any step of it: then
  // it returns that code, with the cause in its words, within the bounds above. What it has begun
  // is undone, and the peers learn `rank 1 left: "<cause>"`. A cancellation that comes once the
  // group is ready changes nothing: the lease is good, and may be given back. Cancel may be called
  // on the control thread; `cancellation` outlives the call.
  absl::StatusOr<GroupLease> Acquire(const GroupSpec& spec, Cancellation& cancellation,
                                     SourceLocation where = SourceLocation::Current()) {
    return AcquireAt(spec, &cancellation, where);
  }

  virtual std::vector<LiveGroup> LiveGroups() const = 0;
  virtual PoolStatistics statistics() const = 0;

  // Closes every group, collectively, and leaves the store. FailedPrecondition naming the holders
  // while a lease is out (nothing is closed then). Idempotent. When peers do not come within
  // `timeout` what is left is aborted and the result says so: that takes at most
  // options.close_timeout + the specs' cause_window more, and leaving the store a second more. A
  // call while another thread's is under way waits for the same result, within its own `timeout`.
  virtual absl::Status Close(absl::Duration timeout) = 0;

  // Aborts every group here with `cause` (not OK), which the peers learn as `rank 1 left:
  // "<cause>"`, and leaves the store. Never waits for a peer: a rank that serves the job's store
  // takes it away from those who have not left. Takes at most options.close_timeout + the specs'
  // cause_window, and another options.close_timeout where the store does not answer. While another
  // thread is in Close, that one's close becomes an abort, and its end is waited for. On the
  // control thread it waits for nothing; the groups end by themselves, and Close or the destructor
  // still have to end the pool.
  virtual void Abort(const absl::Status& cause) = 0;

 private:
  virtual absl::StatusOr<GroupLease> AcquireAt(const GroupSpec& spec, Cancellation* cancellation,
                                               SourceLocation where) = 0;
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_GROUP_POOL_H_

// Which groups of this process are alive: for tests that look for leaks, for `LiveGroups`, and for
// the end of the process.
//
// This holds the one list of live pools. Return from main and exit() run a hook that aborts
// whatever is still in it (L6), with one line a group in the log. Beside it stands what backends
// did not give back (residue).
#ifndef MUSTER_CORE_OBSERVE_LIVE_GROUPS_H_
#define MUSTER_CORE_OBSERVE_LIVE_GROUPS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/state.h"
#include "muster/core/platform/fork_guard.h"

namespace muster {

// A group that is not in a terminal state, or one with residue.
struct LiveGroup {
  std::string name;
  int64_t generation = 0;  // 0: its ranks have not met yet
  std::string backend;     // resolved; "" before the ranks have met
  std::string device;      // "cpu", "cuda:0"
  GroupState state = GroupState::kCreated;
  int holders = 0;                   // leases out
  std::vector<std::string> held_at;  // where each was acquired: "trainer.cc:88"
  std::string created_at;            // where the group was: "train_test.cc:31"
  std::string residue;               // what a backend did not give back; "" normally
  std::string parent;                // that it was split from: "train/1"; "" normally

  std::string ToString() const;  // "train/1, ready, 1 holder, created at train_test.cc:31"
};

// What the list knows of a pool.
class LivePool {
 public:
  virtual ~LivePool() = default;
  // Without those that LeaveBehind lists.
  virtual std::vector<LiveGroup> LiveGroups() const = 0;
  // What AbortBecause does first, without waiting for it: the peers are told, no new work is taken.
  // AbortBecause follows.
  virtual void BeginAbort(absl::string_view) {}
  // Abort everything: within the pool's close_timeout and the specs' cause_window, and another
  // close_timeout for a store that does not answer. The peers are told "rank 1 (host b, pid 812)
  // <why>". Never called in a forked child.
  virtual void AbortBecause(absl::string_view why) = 0;
  // How long that may take: whoever waits for it on another thread waits no longer.
  virtual absl::Duration AbortBound() const = 0;
  // Whether this is a thread that an AbortBecause on another one waits for.
  virtual bool RunsHere() const { return false; }
};

// Thread-safe. In a forked child one that the parent made is empty, and locks nothing: a thread of
// the parent may have held its locks.
class LivePools {
 public:
  // The process's own, so that a forked child has another; never destroyed. Its hook at exit is
  // installed with the first pool.
  static LivePools& Global();

  void Add(LivePool* pool);
  // When it returns true no call on `pool` is running and none will come. False: one has run for
  // longer than AbortBound, so its caller leaves the pool in memory for ever.
  [[nodiscard]] bool Remove(LivePool* pool);
  // Takes it off the list without waiting: a call may still be running, so its caller leaves it in
  // memory for ever. For the pool's own control thread, which such a call may be waiting for.
  void Forget(LivePool* pool);

  // Lists `group`, which left residue in this process, until the last copy of the result is gone:
  // its pool may end before.
  [[nodiscard]] std::shared_ptr<const LiveGroup> LeaveBehind(LiveGroup group);
  // FailedPrecondition naming the residue on `device` ("cuda:0"): who is stuck inside a device's
  // library may touch the device again at any time, so no new group is made there.
  absl::Status CheckFree(absl::string_view device) const;

  // The pools' groups, and what was left behind.
  std::vector<LiveGroup> All() const;
  // Without `why` what the exit hook does: "rank 1 (host b, pid 812) exited while its groups were
  // alive", or "... while its pool was open" where it had none. All pools begin, then one after the
  // other is waited for; observers and other threads may use this list meanwhile. Those that
  // another thread aborts already are waited for, too: no longer than AbortBound from when that
  // began, and not on a thread which it waits for.
  void AbortAll(absl::string_view why = "");
  // Whether an abort of one of them, by another thread, waits for this one.
  bool AbortNeedsThisThread() const;

 private:
  struct Entry {
    explicit Entry(LivePool* its_pool) : pool(its_pool) {}
    LivePool* const pool;
    int calls = 0;    // on `pool`, which run without the lock: they wait for threads that need it
    std::string why;  // of the abort, once that has begun; never empty then
    bool aborted = false;  // a thread is in its AbortBecause, or was
    absl::Time abort_by;   // when that has to be over
  };
  // Whether something of this process may be listed. Takes no lock.
  bool used() const { return used_ && made_in_ == ForkGeneration(); }
  // The next pool whose abort has not begun, and the next that nobody aborts though it has, with a
  // call counted; null at the end.
  std::shared_ptr<Entry> TakeToBegin(absl::string_view why);
  std::shared_ptr<Entry> TakeToAbort();
  void AwaitOtherAborts();
  std::shared_ptr<Entry> Unlist(LivePool* pool) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::vector<std::shared_ptr<const LiveGroup>> Residues() const;

  const uint64_t made_in_ = ForkGeneration();
  std::atomic<bool> used_ = false;
  mutable absl::Mutex mutex_;
  std::vector<std::shared_ptr<Entry>> pools_ ABSL_GUARDED_BY(mutex_);
  mutable absl::Mutex residue_mutex_;  // taken last: pools call with their own lock held
  std::vector<std::weak_ptr<const LiveGroup>> residues_ ABSL_GUARDED_BY(residue_mutex_);
};

// The groups that are alive in this process, over all pools.
std::vector<LiveGroup> AllLiveGroups();

}  // namespace muster

#endif  // MUSTER_CORE_OBSERVE_LIVE_GROUPS_H_

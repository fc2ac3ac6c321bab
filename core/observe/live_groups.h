// Which groups of this process are alive: for tests that look for leaks, for `LiveGroups`, and for
// the end of the process.
//
// This holds the one list of live pools. Return from main and exit() run a hook that aborts
// whatever is still in it (L6), with one line a group in the log.
#ifndef MUSTER_CORE_OBSERVE_LIVE_GROUPS_H_
#define MUSTER_CORE_OBSERVE_LIVE_GROUPS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "muster/core/lifecycle/state.h"

namespace muster {

// A group that is not in a terminal state, or one with residue.
struct LiveGroup {
  std::string name;
  int64_t generation = 0;  // 0: its ranks have not met yet
  std::string backend;     // resolved; "" before the ranks have met
  GroupState state = GroupState::kCreated;
  int holders = 0;                   // leases out
  std::vector<std::string> held_at;  // where each was acquired: "trainer.cc:88"
  std::string created_at;            // where the group was: "train_test.cc:31"
  std::string residue;               // what a backend did not give back; "" normally

  std::string ToString() const;  // "train/1, ready, 1 holder, created at train_test.cc:31"
};

// What the list knows of a pool.
class LivePool {
 public:
  virtual ~LivePool() = default;
  virtual std::vector<LiveGroup> LiveGroups() const = 0;
  // The process ends: abort everything, within the pool's close_timeout. Never called in a forked
  // child.
  virtual void AbortAtExit() = 0;
};

// Thread-safe.
class LivePools {
 public:
  // The process's own; never destroyed. Its hook at exit is installed with the first pool.
  static LivePools& Global();

  void Add(LivePool* pool);
  // When it returns no call on `pool` is running and none will come.
  void Remove(LivePool* pool);

  std::vector<LiveGroup> All() const;
  // What the exit hook does.
  void AbortAll();

 private:
  mutable absl::Mutex mutex_;
  struct Entry {
    LivePool* pool;
    pid_t owner;  // the process that made it: a forked child inherits the list, not the pools
  };
  std::vector<Entry> pools_ ABSL_GUARDED_BY(mutex_);
  std::atomic<pid_t> last_owner_ = 0;
};

// The groups that are alive in this process, over all pools.
std::vector<LiveGroup> AllLiveGroups();

}  // namespace muster

#endif  // MUSTER_CORE_OBSERVE_LIVE_GROUPS_H_

#include "muster/core/observe/live_groups.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/log/log.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// A forked child runs its parent's exit handlers: they must not touch the parent's groups.
pid_t hook_owner = 0;

void AbortAllAtExit() {
  if (getpid() == hook_owner) LivePools::Global().AbortAll();
}

}  // namespace

std::string LiveGroup::ToString() const {
  std::string text = generation == 0 ? name : absl::StrCat(name, "/", generation);
  absl::StrAppend(&text, ", ", Name(state), ", ", holders, holders == 1 ? " holder" : " holders");
  if (!created_at.empty()) absl::StrAppend(&text, ", created at ", created_at);
  if (!residue.empty()) absl::StrAppend(&text, ", residue: ", residue);
  return text;
}

LivePools& LivePools::Global() {
  static LivePools* const pools =
      new LivePools;  // outlives everything that static destruction may still run
  return *pools;
}

void LivePools::Add(LivePool* pool) {
  static const bool hook_installed = [] {
    hook_owner = getpid();
    return std::atexit(AbortAllAtExit) == 0;
  }();
  if (!hook_installed)
    LOG(ERROR)
        << "no room for an exit hook: groups that are alive at exit are not aborted in good order";
  absl::MutexLock lock(&mutex_);
  pools_.push_back(pool);
}

void LivePools::Remove(LivePool* pool) {
  absl::MutexLock lock(&mutex_);
  pools_.erase(std::remove(pools_.begin(), pools_.end(), pool), pools_.end());
}

std::vector<LiveGroup> LivePools::All() const {
  absl::MutexLock lock(&mutex_);
  std::vector<LiveGroup> all;
  for (const LivePool* pool : pools_) {
    for (LiveGroup& group : pool->LiveGroups()) all.push_back(std::move(group));
  }
  return all;
}

void LivePools::AbortAll() {
  absl::MutexLock lock(&mutex_);
  for (LivePool* pool : pools_) {
    for (const LiveGroup& group : pool->LiveGroups())
      LOG(WARNING) << "alive at exit, aborted: group " << group.ToString();
    pool->AbortAtExit();
  }
  pools_.clear();
}

std::vector<LiveGroup> AllLiveGroups() { return LivePools::Global().All(); }

}  // namespace muster

#include "muster/core/observe/live_groups.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/debugging/leak_check.h"
#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "muster/core/lifecycle/process_end.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {
namespace {

void AbortAllAtExit() { LivePools::Global().AbortAll(); }

}  // namespace

std::string LiveGroup::ToString() const {
  std::string text = generation == 0 ? name : absl::StrCat(name, "/", generation);
  absl::StrAppend(&text, ", ", Name(state), ", ", holders, holders == 1 ? " holder" : " holders");
  if (!parent.empty()) absl::StrAppend(&text, ", split from ", parent);
  if (!created_at.empty()) absl::StrAppend(&text, ", created at ", created_at);
  if (!residue.empty()) absl::StrAppend(&text, ", residue: ", residue);
  return text;
}

LivePools& LivePools::Global() {
  // Outlives everything that static destruction may still run. A child leaves its parent's as it
  // is, and makes its own.
  static std::atomic<LivePools*> global{nullptr};
  LivePools* pools = global.load();
  while (pools == nullptr || pools->made_in_ != ForkGeneration()) {
    auto own = std::make_unique<LivePools>();
    if (global.compare_exchange_strong(pools, own.get())) {
      pools = absl::IgnoreLeak(own.release());
    }
  }
  return *pools;
}

void LivePools::Add(LivePool* pool) {
  if (this == &Global()) {
    static const bool hook_installed = std::atexit(AbortAllAtExit) == 0;
    if (!hook_installed) {
      LOG(ERROR) << "no room for an exit hook: groups that are alive at exit are not aborted in "
                    "good order";
    }
  }
  absl::MutexLock lock(&mutex_);
  pools_.push_back(std::make_shared<Entry>(pool));
  used_ = true;
}

bool LivePools::Remove(LivePool* pool) {
  if (!used()) return true;
  absl::MutexLock lock(&mutex_);
  const std::shared_ptr<Entry> entry = Unlist(pool);
  if (entry == nullptr) return true;
  const auto unused = [&entry] { return entry->calls == 0; };
  return mutex_.AwaitWithTimeout(absl::Condition(&unused), pool->AbortBound());
}

void LivePools::Forget(LivePool* pool) {
  if (!used()) return;
  absl::MutexLock lock(&mutex_);
  Unlist(pool);
}

std::shared_ptr<LivePools::Entry> LivePools::Unlist(LivePool* pool) {
  const auto listed =
      std::find_if(pools_.begin(), pools_.end(),
                   [pool](const std::shared_ptr<Entry>& entry) { return entry->pool == pool; });
  if (listed == pools_.end()) return nullptr;
  std::shared_ptr<Entry> entry = *listed;
  pools_.erase(listed);
  return entry;
}

std::shared_ptr<const LiveGroup> LivePools::LeaveBehind(LiveGroup group) {
  auto residue = std::make_shared<const LiveGroup>(std::move(group));
  absl::MutexLock lock(&residue_mutex_);
  residues_.erase(std::remove_if(residues_.begin(), residues_.end(),
                                 [](const auto& listed) { return listed.expired(); }),
                  residues_.end());
  residues_.push_back(residue);
  used_ = true;
  return residue;
}

std::vector<std::shared_ptr<const LiveGroup>> LivePools::Residues() const {
  if (!used()) return {};
  absl::MutexLock lock(&residue_mutex_);
  std::vector<std::shared_ptr<const LiveGroup>> residues;
  for (const std::weak_ptr<const LiveGroup>& listed : residues_) {
    if (auto group = listed.lock()) residues.push_back(std::move(group));
  }
  return residues;
}

absl::Status LivePools::CheckFree(absl::string_view device) const {
  for (const std::shared_ptr<const LiveGroup>& residue : Residues()) {
    if (residue->device != device) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("no new group on ", device, " in this process (pid ", getpid(), "): group '",
                     residue->name, "/", residue->generation,
                     "' left residue there: ", residue->residue, "; restart the process"));
  }
  return absl::OkStatus();
}

std::vector<LiveGroup> LivePools::All() const {
  if (!used()) return {};
  std::vector<LiveGroup> all;
  for (const std::shared_ptr<const LiveGroup>& residue : Residues()) all.push_back(*residue);
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Entry>& entry : pools_) {
    for (LiveGroup& group : entry->pool->LiveGroups()) all.push_back(std::move(group));
  }
  return all;
}

std::shared_ptr<LivePools::Entry> LivePools::TakeToBegin(absl::string_view why) {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Entry>& entry : pools_) {
    if (!entry->why.empty()) continue;
    const bool idle = why.empty() && entry->pool->LiveGroups().empty();
    entry->why = std::string(!why.empty() ? why : idle ? kExitedWithPool : kExitedWithGroups);
    ++entry->calls;
    return entry;
  }
  return nullptr;
}

std::shared_ptr<LivePools::Entry> LivePools::TakeToAbort() {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Entry>& entry : pools_) {
    if (entry->aborted || entry->why.empty()) continue;
    entry->aborted = true;
    entry->abort_by = MonotonicNow() + entry->pool->AbortBound();
    ++entry->calls;
    return entry;
  }
  return nullptr;
}

void LivePools::AbortAll(absl::string_view why) {
  if (!used()) return;  // a forked child runs its parent's exit handlers
  while (true) {
    // A pool that takes its whole bound must not keep the others' peers from learning of this.
    while (const std::shared_ptr<Entry> entry = TakeToBegin(why)) {
      for (const LiveGroup& group : entry->pool->LiveGroups()) {
        LOG(WARNING) << "aborted: group " << group.ToString() << ": its rank " << entry->why;
      }
      entry->pool->BeginAbort(entry->why);
      absl::MutexLock lock(&mutex_);
      --entry->calls;
    }
    const std::shared_ptr<Entry> entry = TakeToAbort();
    if (entry == nullptr) break;
    entry->pool->AbortBecause(entry->why);
    absl::MutexLock lock(&mutex_);
    --entry->calls;
    pools_.erase(std::remove(pools_.begin(), pools_.end(), entry), pools_.end());
  }
  AwaitOtherAborts();
}

void LivePools::AwaitOtherAborts() {
  std::vector<std::string> stuck;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<std::shared_ptr<Entry>> others;
    for (const std::shared_ptr<Entry>& entry : pools_) {
      if (entry->aborted && !entry->pool->RunsHere()) others.push_back(entry);
    }
    for (const std::shared_ptr<Entry>& entry : others) {
      const auto ended = [&entry] { return entry->calls == 0; };
      if (mutex_.AwaitWithTimeout(absl::Condition(&ended), entry->abort_by - MonotonicNow()) ||
          std::find(pools_.begin(), pools_.end(), entry) == pools_.end()) {
        continue;
      }
      const std::vector<LiveGroup> groups = entry->pool->LiveGroups();
      for (const LiveGroup& group : groups) stuck.push_back(group.ToString());
      if (groups.empty()) stuck.emplace_back("its groups have ended");
    }
  }
  if (stuck.empty()) return;
  LOG(ERROR) << "the abort of a pool on another thread did not end within its bound, and is waited "
                "for no longer: "
             << absl::StrJoin(stuck, "; ");
}

bool LivePools::AbortNeedsThisThread() const {
  if (!used()) return false;
  absl::MutexLock lock(&mutex_);
  return std::any_of(pools_.begin(), pools_.end(), [](const std::shared_ptr<Entry>& entry) {
    return entry->aborted && entry->pool->RunsHere();
  });
}

std::vector<LiveGroup> AllLiveGroups() { return LivePools::Global().All(); }

}  // namespace muster

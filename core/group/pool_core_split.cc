// PoolCore's groups of some ranks: a spec with members, and the children of a Split.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>  // NOLINT(build/c++11): ids, to tell threads apart
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/group/pool_core.h"
#include "muster/core/lifecycle/split.h"
#include "muster/core/platform/describe_ranks.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/gather_error.h"

namespace muster {
namespace {

// The store judges the deadline; this is for one that does not answer at all.
constexpr absl::Duration kStoreSlack = absl::Seconds(2);
// Names grow with each split of a split, and are keys of the store.
constexpr size_t kMaxChildName = 256;

}  // namespace

absl::StatusOr<GroupSpec> PoolCore::ForThisJob(const GroupSpec& spec) const {
  if (spec.members.empty()) return spec;
  const std::string group = absl::StrCat("GroupSpec.members of '", spec.name, "' (",
                                         absl::StrJoin(spec.members, ", "), ")");
  for (const int member : spec.members) {
    if (member < world_.size) continue;
    return absl::InvalidArgumentError(absl::StrCat(group, " has rank ", member, " in a job of ",
                                                   world_.size, " ranks: ranks are 0 to ",
                                                   world_.size - 1));
  }
  if (!absl::c_linear_search(spec.members, world_.rank)) {
    return absl::InvalidArgumentError(
        absl::StrCat(group, " has no rank ", world_.rank, ": only its members acquire a group"));
  }
  GroupSpec same = spec;
  std::vector<int> all(world_.size);
  std::iota(all.begin(), all.end(), 0);
  if (same.members == all) same.members.clear();
  return same;
}

bool PoolCore::MakesAlone() {
  const std::thread::id here = std::this_thread::get_id();
  if (!maker_.has_value()) maker_ = here;
  several_makers_ |= *maker_ != here;
  return !several_makers_;
}

std::string PoolCore::WaitsIn(const GroupSpec& spec) {
  if (!MakesAlone()) return "";
  if (spec.members.empty()) return absl::StrCat("'", spec.name, "'");
  std::vector<int> members = spec.members;
  std::sort(members.begin(), members.end());
  return absl::StrCat("'", spec.name, "' of ", DescribeRanks(members));
}

PoolCore::Entry* PoolCore::EntryOf(const GroupRuntime& runtime) {
  for (auto& [name, entry] : entries_) {
    if (entry.runtime.get() == &runtime) return &entry;
  }
  return nullptr;
}

std::vector<std::shared_ptr<GroupRuntime>> PoolCore::DescendantsOf(const GroupRuntime& runtime) {
  std::vector<std::shared_ptr<GroupRuntime>> descendants;
  for (const auto& [name, entry] : entries_) {
    if (entry.parent.get() != &runtime) continue;
    // Also of one that a peer has just closed.
    for (auto& deeper : DescendantsOf(*entry.runtime)) descendants.push_back(std::move(deeper));
    if (!IsTerminal(entry.runtime->state())) descendants.push_back(entry.runtime);
  }
  return descendants;
}

std::vector<std::string> PoolCore::DescribeChildren(const GroupRuntime& runtime) {
  std::vector<std::string> children;
  for (const auto& child : DescendantsOf(runtime)) {
    const Entry* entry = EntryOf(*child);
    const std::string held = entry == nullptr ? "" : JoinHolders(Leases(entry->holders));
    children.push_back(
        absl::StrCat("'", child->id(), "'", held.empty() ? "" : absl::StrCat(" (", held, ")")));
  }
  return children;
}

absl::Status PoolCore::CheckLastHolder(const LeaseRecord& lease) {
  const Entry* entry = EntryOf(lease.runtime());
  if (entry == nullptr) return absl::OkStatus();
  std::vector<Holder> others;
  for (const Holder& holder : entry->holders) {
    if (holder.id != lease.id() && holder.child == nullptr) others.push_back(holder);
  }
  if (others.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("Close of ", lease.runtime().id(), ": it is held by ", JoinHolders(others),
                   " too; only the last holder closes, so use Release"));
}

absl::Status PoolCore::CloseWithChildren(LeaseRecord& lease, absl::Duration timeout) {
  if (absl::Status may = CheckMayWait(absl::StrCat("Close of ", lease.runtime().id())); !may.ok()) {
    return may;
  }
  std::vector<std::shared_ptr<GroupRuntime>> descendants;
  {
    absl::MutexLock lock(&mutex_);
    if (absl::Status last = CheckLastHolder(lease); !last.ok()) return last;
    descendants = DescendantsOf(lease.runtime());
    for (const auto& descendant : descendants) HandOutNoMore(*descendant);
  }
  // All at once: none needs its parent for its end.
  for (const auto& descendant : descendants) descendant->BeginClose(timeout);
  absl::Status result;
  for (const auto& descendant : descendants) result.Update(descendant->WaitTerminal());
  result.Update(CloseByHolder(lease, timeout));
  return result;
}

// A child holds its parent as long as it lives.
void PoolCore::ForgetEndedChildren(Entry& entry) {
  entry.holders.erase(std::remove_if(entry.holders.begin(), entry.holders.end(),
                                     [](const Holder& holder) { return holder.ended(); }),
                      entry.holders.end());
}

void PoolCore::AddChild(Entry& parent, const std::string& name,
                        std::shared_ptr<GroupRuntime> child) {
  parent.holders.push_back({next_lease_++, absl::StrCat("its child '", name, "'"),
                            /*waits=*/false, std::move(child)});
}

void PoolCore::OnChanged(const std::string& name) {
  Entry ended;  // its runtimes end without the lock
  std::shared_ptr<GroupRuntime> idle;
  bool close = false;
  {
    absl::MutexLock lock(&mutex_);
    ++version_;
    const auto it = entries_.find(name);
    if (it == entries_.end() || it->second.parent == nullptr) return;
    if (!IsTerminal(it->second.runtime->state())) return;
    ended = std::move(it->second);
    entries_.erase(it);
    Entry* parent = EntryOf(*ended.parent);
    // Who was split from it is its parent's now: those that live are to be found there.
    for (auto& [orphan, entry] : entries_) {
      if (entry.parent != ended.runtime) continue;
      entry.parent = ended.parent;
      if (parent != nullptr) AddChild(*parent, orphan, entry.runtime);
    }
    if (parent == nullptr) return;
    ForgetEndedChildren(*parent);
    if (!parent->holders.empty()) return;
    idle = parent->runtime;
    close = ClosesIdle(*parent) && !parent->ending;
    parent->ending |= close;
  }
  idle->OnHeldNoMore();
  if (close) idle->BeginClose(idle->spec().close_timeout);
}

absl::StatusOr<std::vector<SplitChoice>> PoolCore::GatherChoices(
    const std::shared_ptr<GroupRuntime>& parent, const SplitChoice& own, std::string waits_in,
    absl::Duration timeout, absl::Time deadline) {
  struct Answer {
    std::optional<absl::StatusOr<GatherResult>> result;
  };
  auto answer = std::make_shared<Answer>();
  parent->AgreeOnSplit(own.Encode(), std::move(waits_in), deadline,
                       [core = weak_from_this(), answer](absl::StatusOr<GatherResult> result) {
                         if (auto self = core.lock()) {
                           absl::MutexLock lock(&self->mutex_);
                           answer->result = std::move(result);
                         }
                       });
  absl::StatusOr<GatherResult> gathered = absl::DeadlineExceededError("the store did not answer");
  {
    absl::MutexLock lock(&mutex_);
    const auto over = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return answer->result.has_value() || life_ == Life::kEnded;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&over), deadline + kStoreSlack - MonotonicNow());
    if (answer->result.has_value()) gathered = *std::move(answer->result);
  }
  if (!gathered.ok()) {
    if (parent->state() != GroupState::kReady) return parent->WhyNot("split");
    absl::string_view message = gathered.status().message();
    const bool late = absl::ConsumeSuffix(&message, DidNotComeToGather(parent->split_key()));
    return absl::Status(
        gathered.status().code(),
        absl::StrCat(
            "split of ", parent->id(), ": ", message,
            late ? absl::StrCat(" did not call Split in time (setup_timeout, ",
                                absl::FormatDuration(timeout), " on rank ", world_.rank, ")")
                 : ""));
  }
  std::vector<SplitChoice> choices;
  for (const std::string& value : gathered->values) {
    absl::StatusOr<SplitChoice> choice = SplitChoice::Decode(value);
    if (!choice.ok()) return choice.status();
    choices.push_back(*std::move(choice));
  }
  return choices;
}

absl::StatusOr<GroupLease> PoolCore::Split(std::shared_ptr<GroupRuntime> parent,
                                           const GroupSpec& spec, int color, int key,
                                           SourceLocation where) {
  if (absl::Status may = CheckMayWait(absl::StrCat("split of ", parent->id())); !may.ok()) {
    return may;
  }
  // One deadline for both halves: the agreement, and the set-up of what is agreed.
  const absl::Time deadline = MonotonicNow() + spec.setup_timeout;
  SplitChoice own{color, key, {}};
  std::string waits_in;
  {
    absl::MutexLock lock(&mutex_);
    Entry* entry = EntryOf(*parent);
    if (!open()) {
      return absl::FailedPreconditionError(
          absl::StrCat("split of ", parent->id(), ": its pool was closed"));
    }
    if (entry != nullptr && std::exchange(entry->splitting, true)) {
      return absl::FailedPreconditionError(
          absl::StrCat("split of ", parent->id(),
                       " while another thread is in one: the ranks could not agree on their order; "
                       "wait for the other one"));
    }
    for (const auto& [name, other] : entries_) {
      const std::optional<int> number = SplitNumber(parent->spec().name, name);
      if (number.has_value() && !IsTerminal(other.runtime->state())) own.taken.push_back(*number);
    }
    if (MakesAlone()) waits_in = absl::StrCat("a split of '", parent->id(), "'");
  }
  // Until the child is in the list, with its number.
  auto done = absl::MakeCleanup([&] {
    absl::MutexLock lock(&mutex_);
    if (Entry* entry = EntryOf(*parent); entry != nullptr) entry->splitting = false;
  });
  absl::StatusOr<std::vector<SplitChoice>> choices =
      GatherChoices(parent, own, waits_in, spec.setup_timeout, deadline);
  if (!choices.ok()) return choices.status();
  const SplitDecision decision = DecideSplit(*choices, parent->rank());
  if (decision.members.empty()) return GroupLease();

  GroupSpec child = spec;
  child.name = SplitName(parent->spec().name, decision.number, color);
  child.backend = parent->backend();
  child.members.clear();
  for (const int member : decision.members) child.members.push_back(parent->RankInJob(member));
  if (child.name.size() > kMaxChildName) {
    return absl::InvalidArgumentError(
        absl::StrCat("split of ", parent->id(), ": the name of its child would have ",
                     child.name.size(), " characters, ", kMaxChildName,
                     " is the limit: split a group that is not itself split so often"));
  }
  const absl::StatusOr<GroupSpec> here = ForThisJob(child);
  if (!here.ok()) return here.status();
  // From here on whatever becomes of the parent: the other members do the same, and would wait.
  Introduction introduction = IntroduceSelf(*here);
  std::shared_ptr<GroupRuntime> former;  // ends without the lock
  std::shared_ptr<GroupRuntime> made;
  uint64_t waits = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (!open()) {
      return absl::FailedPreconditionError(
          absl::StrCat("split of ", parent->id(), ": its pool was closed"));
    }
    Entry& entry = entries_[here->name];
    former = std::move(entry.runtime);
    made = MakeEntry(entry, *here, std::move(introduction), deadline, where, &waits);
    entry.parent = parent;
    if (Entry* held = EntryOf(*parent); held != nullptr) AddChild(*held, here->name, made);
  }
  std::move(done).Invoke();
  return AwaitReady(made, *here, waits, nullptr);
}

}  // namespace muster

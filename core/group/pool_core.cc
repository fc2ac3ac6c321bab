#include "muster/core/group/pool_core.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/introduce.h"
#include "muster/core/platform/fork_guard.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {

LeaseRecord::LeaseRecord(std::shared_ptr<PoolCore> core, std::shared_ptr<GroupRuntime> runtime,
                         uint64_t id, const GroupSpec& spec)
    : core_(std::move(core)),
      runtime_(std::move(runtime)),
      id_(id),
      spec_(spec),
      exceptions_at_birth_(std::uncaught_exceptions()),
      group_(runtime_, spec.operation_timeout, this) {}

absl::StatusOr<GroupLease> LeaseRecord::Split(int color, int key, SourceLocation where) {
  // Copies: another thread may end the lease meanwhile.
  const std::shared_ptr<PoolCore> core = core_;
  const GroupSpec spec = spec_;
  return core->Split(runtime_, spec, color, key, where);
}

bool LeaseRecord::unwinding() const { return std::uncaught_exceptions() > exceptions_at_birth_; }

PoolCore::PoolCore(const World& world, PoolOptions options, JobConnection connection)
    : world_(world),
      options_(options),
      backends_(options.backends != nullptr ? *options.backends : BackendRegistry::Global()),
      fork_generation_(ForkGeneration()),
      connection_(std::move(connection)),
      executor_(std::make_shared<DetachableExecutor>(connection_.control.get())),
      news_(std::make_shared<StoreNews>(connection_.store.get())) {}

PoolCore::~PoolCore() { executor_->Detach(); }

absl::Status PoolCore::CheckMayWait(absl::string_view call) const {
  if (!on_control_thread()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(call, " on rank ", world_.rank,
                   "'s control thread (in an observer), which it would wait for: call it on "
                   "another thread"));
}

bool PoolCore::on_control_thread() const { return executor_->RunsHere(); }

bool PoolCore::forked() const { return fork_generation_ != ForkGeneration(); }

absl::Status PoolCore::Join(absl::Time deadline) {
  struct Joined {
    absl::Mutex mutex;
    std::optional<absl::Status> status ABSL_GUARDED_BY(mutex);
  };
  auto joined = std::make_shared<Joined>();
  connection_.control->Post([news = news_, joined] {
    news->Start([joined](absl::Status status) {
      absl::MutexLock lock(&joined->mutex);
      joined->status = std::move(status);
    });
  });
  absl::MutexLock lock(&joined->mutex);
  const auto done = [&joined]()
                        ABSL_NO_THREAD_SAFETY_ANALYSIS { return joined->status.has_value(); };
  if (joined->mutex.AwaitWithTimeout(absl::Condition(&done), deadline - MonotonicNow())) {
    return *joined->status;
  }
  return absl::DeadlineExceededError(absl::StrCat(
      world_.store_address.empty() ? "the store of this process"
                                   : absl::StrCat("the store at ", world_.store_address),
      " did not answer within ", absl::FormatDuration(options_.connect_timeout)));
}

NamedGroup PoolCore::Look(const GroupSpec& spec) const {
  NamedGroup group;
  auto it = entries_.find(spec.name);
  if (it == entries_.end()) return group;
  const Entry& entry = it->second;
  group.exists = true;
  group.id = entry.runtime->id();
  group.state = entry.runtime->state();
  group.voting = entry.voting || entry.ending;
  group.holders = JoinHolders(Holding(entry.holders));
  group.difference = spec.DifferenceFrom(entry.runtime->spec());
  return group;
}

std::vector<PoolCore::Holder> PoolCore::Holding(const std::vector<Holder>& holders) {
  std::vector<Holder> holding;
  for (const Holder& holder : holders) {
    if (!holder.waits && !holder.ended()) holding.push_back(holder);
  }
  return holding;
}

std::vector<PoolCore::Holder> PoolCore::Leases(const std::vector<Holder>& holders) {
  std::vector<Holder> leases;
  for (const Holder& holder : holders) {
    if (!holder.waits && holder.child == nullptr) leases.push_back(holder);
  }
  return leases;
}

std::string PoolCore::JoinHolders(const std::vector<Holder>& holders) {
  return absl::StrJoin(holders, ", ",
                       [](std::string* out, const Holder& holder) { out->append(holder.where); });
}

std::string PoolCore::Holders() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries_) {
    const std::vector<Holder> leases = Leases(entry.holders);
    if (!leases.empty() && !IsTerminal(entry.runtime->state())) {
      all.push_back(absl::StrCat("'", entry.runtime->id(), "' (", JoinHolders(leases), ")"));
    }
  }
  return absl::StrJoin(all, ", ");
}

absl::Status PoolCore::CheckGoesOn(const GroupSpec& spec, const Cancellation* cancellation) const {
  absl::Status cause = cancellation == nullptr ? absl::OkStatus() : cancellation->status();
  if (cause.ok()) return cause;
  return absl::Status(cause.code(), absl::StrCat("Acquire of '", spec.name, "' on rank ",
                                                 world_.rank, " was cancelled: ", cause.message()));
}

absl::StatusOr<GroupLease> PoolCore::Acquire(const GroupSpec& asked, Cancellation* cancellation,
                                             SourceLocation where) {
  if (forked()) {
    return absl::FailedPreconditionError(
        "Acquire in a forked child: the pool belongs to the process that made it; make the pool "
        "after fork, or exec");
  }
  if (absl::Status valid = asked.Validate(); !valid.ok()) return valid;
  if (absl::Status may = CheckMayWait("Acquire"); !may.ok()) return may;
  const absl::StatusOr<GroupSpec> here = ForThisJob(asked);
  if (!here.ok()) return here.status();
  const GroupSpec& spec = *here;
  // What is waited for ends by itself: a set-up, a close or a vote of this name. One deadline for
  // all of it, and for the set-up after it.
  const absl::Time deadline = MonotonicNow() + spec.setup_timeout;
  Cancellation::Registration wakes;
  if (cancellation != nullptr) {
    wakes = cancellation->OnCancel([this](const absl::Status&) {
      absl::MutexLock lock(&mutex_);
      ++version_;
    });
  }
  std::optional<Introduction> introduction;  // made without the lock, then decided again
  while (true) {
    std::shared_ptr<GroupRuntime> former;  // ends without the lock: its backend may take its time
    std::shared_ptr<GroupRuntime> made;
    uint64_t waits = 0;
    std::shared_ptr<GroupRuntime> to_replace;
    std::string difference;
    {
      absl::MutexLock lock(&mutex_);
      if (!open()) {
        return absl::FailedPreconditionError("Acquire on a pool that was closed: make a new pool");
      }
      if (absl::Status goes_on = CheckGoesOn(spec, cancellation); !goes_on.ok()) return goes_on;
      const NamedGroup group = Look(spec);
      const AcquireDecision decision = DecideAcquire(group);
      switch (decision.kind) {
        case AcquireDecision::Kind::kReuse:
          ++statistics_.groups_reused;
          return AddHolder(entries_.at(spec.name), spec, where);
        case AcquireDecision::Kind::kRefuse:
          return decision.why;
        case AcquireDecision::Kind::kWait: {
          introduction.reset();  // what is waited for may leave residue
          const uint64_t seen = version_;
          const auto moved = [this, seen]()
                                 ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return version_ != seen; };
          if (!mutex_.AwaitWithTimeout(absl::Condition(&moved), deadline - MonotonicNow())) {
            return absl::DeadlineExceededError(absl::StrCat(
                "group '", group.id, "' was ", Name(group.state), group.voting ? ", voted on," : "",
                " for longer than ", absl::FormatDuration(spec.setup_timeout), " (setup_timeout)"));
          }
          continue;
        }
        case AcquireDecision::Kind::kPropose:
          introduction.reset();
          to_replace = entries_.at(spec.name).runtime;
          difference = group.difference;
          break;
        case AcquireDecision::Kind::kCreate: {
          if (!introduction.has_value()) break;
          Entry& entry = entries_[spec.name];
          former = std::move(entry.runtime);
          made = MakeEntry(entry, spec, *std::exchange(introduction, std::nullopt), deadline, where,
                           &waits);
          break;
        }
      }
    }
    if (made != nullptr) return AwaitReady(made, spec, waits, cancellation);
    if (to_replace == nullptr) {
      introduction = IntroduceSelf(spec);
    } else if (absl::Status status = Propose(to_replace, spec, difference, deadline, cancellation);
               !status.ok()) {
      return status;
    }
  }
}

std::shared_ptr<GroupRuntime> PoolCore::MakeEntry(Entry& entry, const GroupSpec& spec,
                                                  Introduction introduction, absl::Time setup_by,
                                                  SourceLocation where, uint64_t* waits) {
  entry = Entry();
  entry.runtime = NewRuntime(spec, std::move(introduction), setup_by);
  entry.created_at = where.ToString();
  *waits = next_lease_++;
  entry.holders.push_back({*waits, entry.created_at, /*waits=*/true, /*child=*/nullptr});
  // Under the lock: a close of the pool finds it started, or does not find it.
  entry.runtime->Start();
  ++version_;
  return entry.runtime;
}

absl::StatusOr<GroupLease> PoolCore::AwaitReady(const std::shared_ptr<GroupRuntime>& runtime,
                                                const GroupSpec& spec, uint64_t id,
                                                Cancellation* cancellation) {
  Cancellation::Registration cancels;
  if (cancellation != nullptr) {
    cancels = cancellation->OnCancel([this, &runtime](const absl::Status& cause) {
      runtime->BeginAbortOfSetUp(WeLeave(cause));
    });
  }
  absl::Status ready = runtime->WaitReady();
  cancels.Reset();
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(spec.name);
  const bool ours = it != entries_.end() && it->second.runtime == runtime;
  if (!ready.ok()) {
    if (ours) entries_.erase(it);
    ++version_;
    return ready;
  }
  if (!open()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the pool was closed during the set-up of '", spec.name, "'"));
  }
  if (!ours) return runtime->status();  // it ended at once, and its name is another one's already
  for (Holder& holder : it->second.holders) {
    if (holder.id == id) holder.waits = false;
  }
  return GroupLease(std::make_unique<LeaseRecord>(shared_from_this(), runtime, id, spec));
}

absl::Status PoolCore::Propose(const std::shared_ptr<GroupRuntime>& runtime, const GroupSpec& spec,
                               const std::string& wanted, absl::Time deadline,
                               const Cancellation* cancellation) {
  struct Refusal {
    absl::Status why;
  };
  auto refusal = std::make_shared<Refusal>();
  runtime->Propose(wanted, [core = weak_from_this(), refusal](const absl::Status& why) {
    if (auto self = core.lock()) {
      absl::MutexLock lock(&self->mutex_);
      refusal->why = why;
    }
  });
  absl::MutexLock lock(&mutex_);
  // The vote ends, or the group does, within the group's close_timeout; the caller's patience may
  // be shorter.
  const auto settled = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !refusal->why.ok() || IsTerminal(runtime->state()) || !open();
  };
  uint64_t seen = version_;
  while (!settled()) {
    // The vote goes on, as others may have asked for it, too.
    if (absl::Status goes_on = CheckGoesOn(spec, cancellation); !goes_on.ok()) return goes_on;
    const auto moved = [this, seen]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return version_ != seen; };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&moved), deadline - MonotonicNow())) {
      return absl::DeadlineExceededError(
          absl::StrCat("the vote on replacing '", runtime->id(), "' (", wanted,
                       ") did not end within the setup_timeout of the group that was wanted"));
    }
    seen = version_;
  }
  return refusal->why;
}

Introduction PoolCore::IntroduceSelf(const GroupSpec& spec) {
  Introduction self;
  self.incarnation = connection_.incarnation;
  self.host = connection_.host;
  self.pid = connection_.pid;
  self.refusal = HitFault(FaultPoint::kPoolRendezvous, world_.rank);
  return Introduce(std::move(self), spec, backends_, LivePools::Global());
}

std::shared_ptr<GroupRuntime> PoolCore::NewRuntime(const GroupSpec& spec, Introduction introduction,
                                                   absl::Time setup_by) {
  GroupRuntime::Options options;
  options.spec = spec;
  options.setup_by = setup_by;
  options.rank = world_.rank;
  options.size = world_.size;
  if (!spec.members.empty()) {
    const auto self = std::find(spec.members.begin(), spec.members.end(), world_.rank);
    options.rank = static_cast<int>(self - spec.members.begin());
    options.size = static_cast<int>(spec.members.size());
  }
  options.waits_in = WaitsIn(spec);
  options.introduction = std::move(introduction);
  options.bind_address = connection_.bind_address;
  options.executor = executor_;
  options.store = connection_.store.get();
  options.news = news_;
  options.backends = &backends_;
  options.observer = this;
  options.error_file = world_.error_file;
  options.ask_holders = [core = weak_from_this(),
                         name = spec.name](const GroupRuntime::Options::InFlight& in_flight) {
    auto self = core.lock();
    if (self == nullptr) return in_flight();
    absl::MutexLock lock(&self->mutex_);
    auto it = self->entries_.find(name);
    if (it == self->entries_.end()) return in_flight();
    ForgetEndedChildren(it->second);
    std::string holders = JoinHolders(it->second.holders);
    if (holders.empty()) holders = in_flight();
    it->second.voting = holders.empty();
    return holders;
  };
  options.vote_ended = [core = weak_from_this(), name = spec.name] {
    auto self = core.lock();
    if (self == nullptr) return;
    absl::MutexLock lock(&self->mutex_);
    auto it = self->entries_.find(name);
    if (it != self->entries_.end()) it->second.voting = false;
  };
  options.changed = [core = weak_from_this(), name = spec.name] {
    if (auto self = core.lock()) self->OnChanged(name);
  };
  options.left_behind = [core = weak_from_this()](LiveGroup left) {
    auto self = core.lock();
    return self == nullptr ? LivePools::Global().LeaveBehind(std::move(left))
                           : self->LeaveBehind(std::move(left));
  };
  return std::make_shared<GroupRuntime>(std::move(options));
}

std::shared_ptr<const LiveGroup> PoolCore::LeaveBehind(LiveGroup left) {
  absl::MutexLock lock(&mutex_);
  if (auto it = entries_.find(left.name); it != entries_.end()) {
    left.created_at = it->second.created_at;
  }
  std::shared_ptr<const LiveGroup> residue = LivePools::Global().LeaveBehind(std::move(left));
  residues_.push_back(residue);
  return residue;
}

GroupLease PoolCore::AddHolder(Entry& entry, const GroupSpec& spec, SourceLocation where) {
  const uint64_t id = next_lease_++;
  entry.holders.push_back({id, where.ToString(), /*waits=*/false, /*child=*/nullptr});
  return GroupLease(std::make_unique<LeaseRecord>(shared_from_this(), entry.runtime, id, spec));
}

std::shared_ptr<GroupRuntime> PoolCore::RemoveHolder(const LeaseRecord& lease) {
  ++version_;
  for (auto& [name, entry] : entries_) {
    if (entry.runtime.get() != &lease.runtime()) continue;
    auto holder = std::find_if(entry.holders.begin(), entry.holders.end(),
                               [&](const Holder& h) { return h.id == lease.id(); });
    if (holder == entry.holders.end()) return nullptr;
    entry.holders.erase(holder);
    ForgetEndedChildren(entry);
    return entry.holders.empty() ? entry.runtime : nullptr;
  }
  return nullptr;
}

void PoolCore::HandOutNoMore(const GroupRuntime& runtime) {
  if (Entry* entry = EntryOf(runtime); entry != nullptr) entry->ending = true;
}

void PoolCore::Release(LeaseRecord& lease) {
  std::shared_ptr<GroupRuntime> last;
  bool closes = false;
  {
    absl::MutexLock lock(&mutex_);
    last = RemoveHolder(lease);
    if (Entry* entry = last == nullptr ? nullptr : EntryOf(*last); entry != nullptr) {
      closes = ClosesIdle(*entry);
      entry->ending |= closes;
    }
  }
  if (last != nullptr) last->OnHeldNoMore();
  if (!closes) return;
  last->BeginClose(lease.close_timeout());
  if (executor_->RunsHere()) return;
  if (absl::Status status = last->WaitTerminal(); !status.ok()) {
    LOG(WARNING) << "closing idle group " << last->id() << ": " << status.message();
  }
}

absl::Status PoolCore::CloseByHolder(LeaseRecord& lease, absl::Duration timeout) {
  if (absl::Status may = CheckMayWait(absl::StrCat("Close of ", lease.runtime().id())); !may.ok()) {
    return may;
  }
  {
    absl::MutexLock lock(&mutex_);
    if (absl::Status last = CheckLastHolder(lease); !last.ok()) return last;
    const std::vector<std::string> children = DescribeChildren(lease.runtime());
    if (!children.empty()) {
      const bool one = children.size() == 1;
      return absl::FailedPreconditionError(
          absl::StrCat("Close of ", lease.runtime().id(), ": its ", one ? "child " : "children ",
                       absl::StrJoin(children, ", "),
                       one ? " is alive; close it first, or use CloseWithChildren"
                           : " are alive; close them first, or use CloseWithChildren"));
    }
    RemoveHolder(lease);
    HandOutNoMore(lease.runtime());
  }
  lease.runtime().BeginClose(timeout);
  return lease.runtime().WaitTerminal();
}

void PoolCore::AbortByHolder(LeaseRecord& lease, const absl::Status& cause) {
  // A copy: the abort wakes the holder, who may end the lease before this returns.
  const std::shared_ptr<GroupRuntime> runtime = lease.shared_runtime();
  runtime->BeginAbort(WeLeave(cause));
  // Bounded: never waits for a peer.
  if (!executor_->RunsHere()) runtime->WaitTerminal().IgnoreError();
}

std::vector<LiveGroup> PoolCore::LiveGroups() const {
  if (forked()) return {};
  absl::MutexLock lock(&mutex_);
  std::vector<LiveGroup> groups;
  for (const auto& [name, entry] : entries_) {
    LiveGroup group;
    group.state = entry.runtime->state();
    if (IsTerminal(group.state)) continue;
    group.name = name;
    group.generation = entry.runtime->generation();
    group.backend = entry.runtime->backend();
    group.device = entry.runtime->spec().device.ToString();
    for (const Holder& holder : Leases(entry.holders)) group.held_at.push_back(holder.where);
    group.holders = static_cast<int>(group.held_at.size());
    group.created_at = entry.created_at;
    if (entry.parent != nullptr) group.parent = entry.parent->id();
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<LiveGroup> PoolCore::Residues() const {
  if (forked()) return {};
  absl::MutexLock lock(&mutex_);
  std::vector<LiveGroup> groups;
  for (const std::weak_ptr<const LiveGroup>& listed : residues_) {
    if (auto residue = listed.lock()) groups.push_back(*residue);
  }
  return groups;
}

PoolStatistics PoolCore::statistics() const {
  if (forked()) return {};
  absl::MutexLock lock(&mutex_);
  return statistics_;
}

void PoolCore::OnTransition(const TransitionEvent& event) {
  if (options_.observer != nullptr) options_.observer->OnTransition(event);
  absl::MutexLock lock(&mutex_);
  const std::string name = event.group.substr(0, event.group.find('/'));
  if (event.event == GroupEvent::kStart) began_[name] = event.at;
  if (event.to == GroupState::kReady) {
    ++statistics_.groups_created;
    statistics_.last_create = event.at - began_[name];
  }
  if ((event.to == GroupState::kDraining && event.from == GroupState::kReady) ||
      event.event == GroupEvent::kFailed) {
    ending_.insert({name, event.at});
  }
  if (IsTerminal(event.to)) {
    ++(event.to == GroupState::kDestroyed ? statistics_.groups_destroyed
                                          : statistics_.groups_aborted);
    auto ending = ending_.find(name);
    if (ending != ending_.end()) statistics_.last_destroy = event.at - ending->second;
    ending_.erase(name);
    began_.erase(name);
  }
}

}  // namespace muster

#include "muster/core/group/group_pool.h"

#include <exception>
#include <utility>

#include "absl/debugging/leak_check.h"
#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/in_process_pool.h"
#include "muster/core/group/pool_core.h"
#include "muster/core/lifecycle/process_end.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {
namespace {

class GroupPoolImpl final : public GroupPool {
 public:
  explicit GroupPoolImpl(std::shared_ptr<PoolCore> core) : core_(std::move(core)) {
    LivePools::Global().Add(core_.get());
  }

  ~GroupPoolImpl() override {
    if (core_->forked()) {
      // The threads and sessions behind it are the parent's: a child that ends them would wait for
      // what it does not have.
      absl::IgnoreLeak(new std::shared_ptr<PoolCore>(std::move(core_)));
      return;
    }
    if (!core_->on_control_thread()) {
      End();
      if (!LivePools::Global().Remove(core_.get())) {
        LOG(ERROR) << "rank " << rank()
                   << " destroys its pool, whose abort on another thread is "
                      "stuck in a backend or an observer: it stays in memory";
        absl::IgnoreLeak(new std::shared_ptr<PoolCore>(std::move(core_)));
      }
      return;
    }
    LOG(ERROR) << "rank " << rank() << " destroys its pool on the pool's control thread (in an "
               << "observer), which cannot wait for its end: it is aborted, and its threads stay";
    core_->AbortByOwner(absl::AbortedError("its pool was destroyed on the control thread"));
    LivePools::Global().Forget(core_.get());
    absl::IgnoreLeak(new std::shared_ptr<PoolCore>(std::move(core_)));
  }

  int rank() const override { return core_->world().rank; }
  int world_size() const override { return core_->world().size; }
  std::vector<LiveGroup> LiveGroups() const override {
    std::vector<LiveGroup> groups = core_->LiveGroups();
    for (LiveGroup& residue : core_->Residues()) groups.push_back(std::move(residue));
    return groups;
  }
  PoolStatistics statistics() const override { return core_->statistics(); }
  absl::Status Close(absl::Duration timeout) override { return core_->Close(timeout); }
  void Abort(const absl::Status& cause) override { core_->AbortByOwner(cause); }

 private:
  absl::StatusOr<GroupLease> AcquireAt(const GroupSpec& spec, Cancellation* cancellation,
                                       SourceLocation where) override {
    return core_->Acquire(spec, cancellation, where);
  }

  void End() {
    if (std::uncaught_exceptions() > exceptions_at_birth_) {
      return core_->AbortByOwner(absl::AbortedError("an exception"));
    }
    if (const std::string holders = core_->Holders(); !holders.empty()) {
      LOG(WARNING) << "rank " << rank() << " destroys its pool while " << holders
                   << " is held: aborting it";
      return core_->Abort(absl::AbortedError(
          absl::StrCat("rank ", rank(), " ", kDestroyedItsPool, "it held ", holders)));
    }
    if (absl::Status status = core_->Close(core_->options().close_timeout); !status.ok()) {
      LOG(WARNING) << "rank " << rank() << " closed its pool: " << status.message();
    }
  }

  std::shared_ptr<PoolCore> core_;
  const int exceptions_at_birth_ = std::uncaught_exceptions();
};

// A rank beats each tenth of it, and a machine under load may be late by more than a few
// milliseconds.
constexpr absl::Duration kLeastHeartbeatTimeout = absl::Milliseconds(10);

absl::Status CheckTimeout(absl::string_view field, absl::Duration value, absl::Duration least,
                          absl::string_view accepted) {
  if (value > absl::ZeroDuration() && value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("PoolOptions.", field, " is ",
                                                 absl::FormatDuration(value), ": it must be ",
                                                 accepted, " (infinite is fine)"));
}

absl::StatusOr<std::unique_ptr<GroupPool>> MakePool(const World& world, const PoolOptions& options,
                                                    absl::Time deadline,
                                                    absl::StatusOr<JobConnection> connection) {
  if (!connection.ok()) return connection.status();
  auto core = std::make_shared<PoolCore>(world, options, *std::move(connection));
  if (absl::Status joined = core->Join(deadline); !joined.ok()) {
    core->Abort(joined);
    return joined;
  }
  return std::make_unique<GroupPoolImpl>(std::move(core));
}

}  // namespace

absl::Status PoolOptions::Validate() const {
  for (const auto& [field, value] :
       {std::pair<const char*, absl::Duration>{"close_timeout", close_timeout},
        {"connect_timeout", connect_timeout}}) {
    absl::Status status = CheckTimeout(field, value, absl::ZeroDuration(), "more than zero");
    if (!status.ok()) return status;
  }
  return CheckTimeout("heartbeat_timeout", heartbeat_timeout, kLeastHeartbeatTimeout,
                      absl::StrCat(absl::FormatDuration(kLeastHeartbeatTimeout), " or more"));
}

absl::StatusOr<std::unique_ptr<GroupPool>> GroupPool::FromEnvironment(PoolOptions options) {
  absl::StatusOr<World> world = WorldFromEnvironment(Environment::OfProcess());
  if (!world.ok()) return world.status();
  return Create(*world, options);
}

absl::StatusOr<std::unique_ptr<GroupPool>> GroupPool::Create(const World& world,
                                                             PoolOptions options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  if (absl::Status valid = world.Validate(); !valid.ok()) return valid;
  absl::Status faults = ArmFaultsFromEnvironment(Environment::OfProcess());
  if (!faults.ok()) return faults;
  const absl::Time deadline = MonotonicNow() + options.connect_timeout;
  return MakePool(world, options, deadline,
                  OpenJobConnection(world, deadline, options.heartbeat_timeout));
}

absl::StatusOr<std::unique_ptr<GroupPool>> CreateInProcessPool(int rank, int size,
                                                               MemoryStoreServer& server,
                                                               PoolOptions options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  World world;
  world.rank = world.local_rank = rank;
  world.size = world.local_size = size;
  world.launcher = "in process";
  return MakePool(world, options, MonotonicNow() + options.connect_timeout,
                  OpenJobConnection(world, server));
}

}  // namespace muster

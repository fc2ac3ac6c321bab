#include "muster/trainer/trainer.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/group_collectives.h"

namespace muster {
namespace {

// Marks the trainer as busy for as long as it lives, if it was not.
class Busy {
 public:
  explicit Busy(std::atomic<bool>& flag) : flag_(flag), mine_(!flag.exchange(true)) {}
  ~Busy() {
    if (mine_) flag_.store(false);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  bool mine() const { return mine_; }

 private:
  std::atomic<bool>& flag_;
  const bool mine_;
};

// The callbacks of one stage: what was set up is torn down in reverse, whatever happens.
class StageCallbacks {
 public:
  StageCallbacks(const std::vector<std::shared_ptr<Callback>>& callbacks, const StageInfo& info)
      : callbacks_(callbacks), info_(info) {}
  ~StageCallbacks() {
    while (set_up_ > 0) callbacks_[--set_up_]->TearDown(info_, outcome_);
  }
  StageCallbacks(const StageCallbacks&) = delete;
  StageCallbacks& operator=(const StageCallbacks&) = delete;

  absl::Status SetUp() {
    while (set_up_ < callbacks_.size()) {
      absl::Status status = callbacks_[set_up_]->SetUp(info_);
      if (!status.ok()) return Annotate(status, absl::StrCat(info_.stage, ", set-up"));
      ++set_up_;
    }
    return absl::OkStatus();
  }

  // What TearDown is told.
  void SetOutcome(const absl::Status& outcome) { outcome_ = outcome; }

 private:
  const std::vector<std::shared_ptr<Callback>>& callbacks_;
  const StageInfo& info_;
  size_t set_up_ = 0;
  absl::Status outcome_;
};

// Aborts the group when an exception leaves the stage. A lease does that in its own destructor, but
// a borrowed one may live on, and what is in flight must be woken before the loop waits for it. Not
// in the handler: an exception that nobody catches above ends the process without a destructor, and
// then the peers and the launcher shall see its signal, not a rank that left.
class AbortOnException {
 public:
  AbortOnException(GroupLease& lease, StageCallbacks& callbacks, absl::string_view stage)
      : lease_(lease),
        callbacks_(callbacks),
        cause_(absl::AbortedError(absl::StrCat("an exception left ", stage))) {}
  ~AbortOnException() {
    if (!armed_) return;
    callbacks_.SetOutcome(cause_);
    lease_.Abort(cause_);
  }
  AbortOnException(const AbortOnException&) = delete;
  AbortOnException& operator=(const AbortOnException&) = delete;

  // What the exception says: a destructor cannot ask it.
  void SetWhat(absl::string_view what) {
    cause_ = absl::AbortedError(absl::StrCat(cause_.message(), ": ", what));
  }
  void Dismiss() { armed_ = false; }

 private:
  GroupLease& lease_;
  StageCallbacks& callbacks_;
  absl::Status cause_;
  bool armed_ = true;
};

std::shared_ptr<ProgressOutput> OrLog(std::shared_ptr<ProgressOutput> output) {
  return output != nullptr ? std::move(output) : ProgressOutput::OfLog();
}

}  // namespace

Trainer::Trainer(TrainerOptions options, SourceLocation where)
    : options_(std::move(options)),
      where_(where),
      borrows_lease_(false),
      output_(OrLog(options_.progress)) {}

Trainer::Trainer(TrainerOptions options, GroupPool& pool, SourceLocation where)
    : options_(std::move(options)),
      where_(where),
      borrows_lease_(false),
      output_(OrLog(options_.progress)),
      pool_(&pool) {}

Trainer::Trainer(TrainerOptions options, GroupLease lease)
    : options_(std::move(options)),
      borrows_lease_(true),
      output_(OrLog(options_.progress)),
      lease_(std::move(lease)) {}

Trainer::~Trainer() = default;

absl::Status Trainer::Fit(Module& module, Dataset& train) { return FitOn(module, train, nullptr); }

absl::Status Trainer::Fit(Module& module, Dataset& train, Dataset& validation) {
  return FitOn(module, train, &validation);
}

absl::Status Trainer::FitOn(Module& module, Dataset& train, Dataset* validation) {
  return RunStage(
      "fit",
      [&](const StageContext& context, const StageInfo& info) {
        return std::make_unique<FitLoop>(
            context, module, train, validation, options_, [this, &info](const EpochResult& result) {
              for (const auto& callback : options_.callbacks) {
                absl::Status status = callback->OnEpochEnd(info, result);
                if (!status.ok()) return status;
              }
              return absl::OkStatus();
            });
      },
      [&](StageLoop& loop, const absl::Status&) {
        epochs_ = static_cast<FitLoop&>(loop).results();
      });
}

absl::Status Trainer::Validate(Module& module, Dataset& data) {
  return Evaluate("validate", module, data, validation_result_);
}

absl::Status Trainer::Test(Module& module, Dataset& data) {
  return Evaluate("test", module, data, test_result_);
}

absl::Status Trainer::Evaluate(absl::string_view stage, Module& module, Dataset& data,
                               std::optional<MetricSums>& result) {
  return RunStage(
      stage,
      [&](const StageContext& context, const StageInfo&) {
        return std::make_unique<EvaluationLoop>(
            context, stage, module, data, options_.BatchSizeOfRank(context.collectives.size()));
      },
      [&](StageLoop& loop, const absl::Status& status) {
        if (status.ok()) result = static_cast<EvaluationLoop&>(loop).result();
      });
}

absl::StatusOr<GroupPool*> Trainer::Pool() {
  if (pool_ != nullptr) return pool_;
  absl::StatusOr<std::unique_ptr<GroupPool>> pool =
      options_.world.has_value() ? GroupPool::Create(*options_.world, options_.pool)
                                 : GroupPool::FromEnvironment(options_.pool);
  if (!pool.ok()) return pool.status();
  own_pool_ = *std::move(pool);
  pool_ = own_pool_.get();
  return pool_;
}

absl::Status Trainer::RunStage(absl::string_view stage, MakeLoop make_loop,
                               TakeResults take_results) {
  Busy busy(busy_);
  if (!busy.mine()) {
    return absl::FailedPreconditionError(absl::StrCat(
        stage,
        ": this trainer is busy with a stage on another thread: a trainer runs one at a time"));
  }
  if (closed_) {
    return absl::FailedPreconditionError(
        absl::StrCat(stage, ": this trainer was closed: make another one"));
  }
  if (borrows_lease_) {
    if (lease_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          stage, ": the trainer was given an empty lease: pass one from GroupPool::Acquire"));
    }
    if (options_.group_lifetime == GroupLifetime::kStage) {
      return absl::InvalidArgumentError(absl::StrCat(
          stage,
          ": group_lifetime is kStage and the lease is borrowed, which a trainer never closes: "
          "use kTrainer, or give it a pool"));
    }
    return RunOn(lease_, stage, make_loop, take_results);
  }

  absl::StatusOr<GroupPool*> pool = Pool();
  if (!pool.ok()) return Annotate(pool.status(), stage);
  absl::StatusOr<GroupLease> lease = (*pool)->Acquire(options_.group, where_);
  if (!lease.ok()) return Annotate(lease.status(), stage);
  absl::Status status = RunOn(*lease, stage, make_loop, take_results);
  if (options_.group_lifetime == GroupLifetime::kStage) {
    // Also when a faster rank has begun it, or an abort: the stage ends when the group has.
    const absl::Status closed = lease->Close();
    if (status.ok()) status = Annotate(closed, absl::StrCat(stage, ", closing its group"));
  }
  return status;
}

absl::Status Trainer::RunOn(GroupLease& lease, absl::string_view stage, MakeLoop make_loop,
                            TakeResults take_results) {
  // In this order, so that after an exception, and the abort that wakes what was in flight, the
  // loop waits for that, and only then the user's callbacks run.
  GroupCollectives collectives(*lease);
  const StageInfo info = {std::string(stage), lease->id(), lease->rank(), lease->size()};
  Progress progress(info.rank == 0 ? output_.get() : nullptr, options_.now);
  StageCallbacks callbacks(options_.callbacks, info);
  const std::unique_ptr<StageLoop> loop =
      make_loop(StageContext{collectives, progress, options_.now}, info);
  AbortOnException guard(lease, callbacks, stage);

  absl::Status status;
  bool known_to_all = false;
  try {
    status = callbacks.SetUp();
    if (status.ok()) {
      status = loop->Prepare();
      known_to_all = !status.ok();
    }
    if (status.ok()) {
      status = loop->Run();
      known_to_all = loop->known_to_all();
    }
  } catch (const std::exception& exception) {
    guard.SetWhat(exception.what());
    throw;
  }
  guard.Dismiss();
  // They cannot have found it out together when one could not even ask.
  if (!status.ok() && (!known_to_all || collectives.failed())) lease.Abort(status);
  callbacks.SetOutcome(status);
  take_results(*loop, status);
  return status;
}

absl::Status Trainer::Close() {
  Busy busy(busy_);
  if (!busy.mine()) {
    return absl::FailedPreconditionError(
        "close: this trainer is busy with a stage on another thread");
  }
  if (closed_) return close_result_;
  closed_ = true;
  if (!lease_.empty()) lease_.Release();
  if (own_pool_ != nullptr) close_result_ = own_pool_->Close(options_.pool.close_timeout);
  return close_result_;
}

PoolStatistics Trainer::group_statistics() const {
  return pool_ != nullptr ? pool_->statistics() : PoolStatistics();
}

std::vector<LiveGroup> Trainer::LiveGroups() const {
  return pool_ != nullptr ? pool_->LiveGroups() : std::vector<LiveGroup>();
}

}  // namespace muster

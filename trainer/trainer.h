// Trains, validates and tests a module on all ranks of a job, and owns up to what becomes of the
// process group.
//
//   muster::TrainerOptions options;
//   options.max_epochs = 5;
//   options.group.name = "train";
//
//   muster::Trainer trainer(std::move(options));           // owns its pool: the group dies with it
//   // muster::Trainer trainer(options, pool);             // the caller's: equal trainers share
//   // muster::Trainer trainer(options, std::move(lease)); // borrowed: never closed by the trainer
//
//   absl::Status status = trainer.Fit(module, train_data, validation_data);
//   if (status.ok()) status = trainer.Validate(module, validation_data);  // the same group
//   if (status.ok()) status = trainer.Test(module, test_data);            // the same group
//   if (status.ok()) status = trainer.Close();                            // or the destructor does
//
// A stage acquires its group, uses it and gives it back. With group_lifetime = kTrainer it stays
// for the next stage, until its pool ends; with kStage it is closed on every rank at the end of
// each stage. When a stage fails on one rank, by an error of the module, the data set or a
// callback's SetUp or by an exception that is caught above, the group is aborted with that cause,
// so that the other ranks fail with it instead of waiting; the next stage makes a new one. (A
// borrowed group too: its lease is then of no use any more.) An exception that nobody catches, not
// even main, ends the process in std::terminate: no destructor runs, and the other ranks learn that
// this one was killed by signal 6, or without a launcher that it was lost. What all ranks find out
// together, such as unequal data sets, weights that drifted apart or an OnEpochEnd that says stop,
// leaves the group as it is.
#ifndef MUSTER_TRAINER_TRAINER_H_
#define MUSTER_TRAINER_TRAINER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/group_spec.h"
#include "muster/core/platform/source_location.h"
#include "muster/core/rendezvous/world.h"
#include "muster/trainer/callback.h"
#include "muster/trainer/data.h"
#include "muster/trainer/fit_loop.h"
#include "muster/trainer/metrics.h"
#include "muster/trainer/module.h"
#include "muster/trainer/progress.h"
#include "muster/trainer/stage_loop.h"

namespace muster {

enum class GroupLifetime {
  kTrainer,  // reused by the stages; ends with its pool
  kStage,    // closed on every rank after each stage
};

// max_epochs, batch_size, sgd and what else fit needs come from FitOptions. They must be equal on
// all ranks, and that is checked.
struct TrainerOptions : FitOptions {
  TrainerOptions() { group.name = "train"; }

  GroupSpec group;  // not used with a borrowed lease
  GroupLifetime group_lifetime = GroupLifetime::kTrainer;

  // Of a trainer that owns its pool.
  std::optional<World> world;  // not given: found out from the environment
  PoolOptions pool;

  std::vector<std::shared_ptr<Callback>> callbacks;
  // Where rank 0 says how it goes. Null: to the log.
  std::shared_ptr<ProgressOutput> progress;
  std::function<absl::Time()> now = absl::Now;
};

// One stage at a time: a second thread's is refused (FailedPrecondition), and results are read
// between stages. Not movable.
class Trainer {
 public:
  // Owns a pool, made at the first stage.
  explicit Trainer(TrainerOptions options, SourceLocation where = SourceLocation::Current());
  // `pool` outlives the trainer.
  Trainer(TrainerOptions options, GroupPool& pool,
          SourceLocation where = SourceLocation::Current());
  Trainer(TrainerOptions options, GroupLease lease);
  // Ends what it owns, within its pool's bound.
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Collective, each. Errors: InvalidArgument for options, a module or data that cannot be, or that
  // differ between ranks (it names the rank); what GroupPool::Acquire gives; an error of the
  // module, the data set or a callback, with the epoch and the batch; on the other ranks the cause.
  absl::Status Fit(Module& module, Dataset& train);
  absl::Status Fit(Module& module, Dataset& train, Dataset& validation);
  absl::Status Validate(Module& module, Dataset& data);
  absl::Status Test(Module& module, Dataset& data);

  // Closes the pool that it owns, and with it the group, on every rank; gives back a borrowed
  // lease; leaves a caller's pool alone. Idempotent; later stages are refused. FailedPrecondition
  // while a stage runs.
  absl::Status Close();

  // Of the last stage of each kind that succeeded; of Fit also the epochs before its failure.
  const std::vector<EpochResult>& epochs() const { return epochs_; }
  const std::optional<MetricSums>& validation_result() const { return validation_result_; }
  const std::optional<MetricSums>& test_result() const { return test_result_; }

  // Of its pool, whoever owns it; zeros for a borrowed lease and before the first stage. Still
  // there after Close.
  PoolStatistics group_statistics() const;
  std::vector<LiveGroup> LiveGroups() const;

 private:
  using MakeLoop =
      absl::FunctionRef<std::unique_ptr<StageLoop>(const StageContext&, const StageInfo&)>;
  using TakeResults = absl::FunctionRef<void(StageLoop&, const absl::Status&)>;

  absl::Status FitOn(Module& module, Dataset& train, Dataset* validation);
  absl::Status Evaluate(absl::string_view stage, Module& module, Dataset& data,
                        std::optional<MetricSums>& result);
  absl::Status RunStage(absl::string_view stage, MakeLoop make_loop, TakeResults take_results);
  absl::Status RunOn(GroupLease& lease, absl::string_view stage, MakeLoop make_loop,
                     TakeResults take_results);
  absl::StatusOr<GroupPool*> Pool();

  const TrainerOptions options_;
  const SourceLocation where_;
  const bool borrows_lease_;
  const std::shared_ptr<ProgressOutput> output_;

  std::atomic<bool> busy_{false};  // a stage or Close runs
  bool closed_ = false;
  absl::Status close_result_;
  GroupPool* pool_ = nullptr;  // the one in use: the caller's, or own_pool_
  std::unique_ptr<GroupPool>
      own_pool_;      // null until the first stage, and for good when the pool is the caller's
  GroupLease lease_;  // the borrowed one

  std::vector<EpochResult> epochs_;
  std::optional<MetricSums> validation_result_;
  std::optional<MetricSums> test_result_;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_TRAINER_H_

// Who owns the group, how long it lives, and what becomes of it when somebody fails. Ranks are
// threads of this process, each with its own pool, over a memory store and the reference backend.
#include "muster/trainer/trainer.h"

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>  // NOLINT: ranks are threads here
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/trainer/group_collectives.h"
#include "muster/trainer/in_process_job.h"
#include "muster/trainer/logistic_module.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kWidth = 4;

TrainerOptions Options() {
  TrainerOptions options;
  options.max_epochs = 2;
  options.batch_size = 4;
  options.sgd = {/*learning_rate=*/0.5, /*momentum=*/0.9};
  options.group.backend = "reference";
  options.group.setup_timeout = absl::Seconds(10) * TimeoutScale();
  options.group.operation_timeout = absl::Seconds(10) * TimeoutScale();
  options.group.close_timeout = absl::Seconds(5) * TimeoutScale();
  return options;
}

// What one rank of a job has.
struct Rank {
  int rank;
  GroupPool& pool;
  PlaneData data{16, kWidth};
  LogisticModule module{kWidth};
};

// Runs `body` on a thread a rank and gives each one's status. Pools end before it returns, and
// leave no group behind.
std::vector<absl::Status> RunJob(int size, const std::function<absl::Status(Rank&)>& body) {
  const std::vector<absl::Status> results =
      RunJobInProcess(size, [&body](int rank, GroupPool& pool) {
        Rank here{rank, pool};
        return body(here);
      });
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
  return results;
}

absl::Status FitValidateTest(Trainer& trainer, Rank& rank) {
  absl::Status status = trainer.Fit(rank.module, rank.data, rank.data);
  if (status.ok()) status = trainer.Validate(rank.module, rank.data);
  if (status.ok()) status = trainer.Test(rank.module, rank.data);
  return status;
}

void ExpectOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// A world of one rank, for a trainer that owns its pool.
TrainerOptions Alone() {
  TrainerOptions options = Options();
  options.world = World();
  return options;
}

TEST(TrainerOwnershipTest, ItsOwnGroupServesAllStagesAndDiesWithIt) {
  PlaneData data(16, kWidth);
  LogisticModule module(kWidth);
  {
    Trainer trainer(Alone());
    EXPECT_TRUE(trainer.Fit(module, data, data).ok());
    EXPECT_TRUE(trainer.Validate(module, data).ok());
    EXPECT_TRUE(trainer.Test(module, data).ok());
    EXPECT_EQ(trainer.group_statistics().groups_created, 1);
    EXPECT_EQ(trainer.group_statistics().groups_reused, 2);
    EXPECT_EQ(AllLiveGroups().size(), 1u);
    EXPECT_THAT(trainer.LiveGroups()[0].created_at, HasSubstr("trainer_test.cc"));
  }
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

TEST(TrainerOwnershipTest, CloseSaysWhatBecameOfIt) {
  PlaneData data(16, kWidth);
  LogisticModule module(kWidth);
  Trainer trainer(Alone());
  ASSERT_TRUE(trainer.Fit(module, data).ok());
  EXPECT_TRUE(trainer.Close().ok());
  EXPECT_EQ(trainer.group_statistics().groups_destroyed, 1);
  EXPECT_EQ(trainer.group_statistics().groups_aborted, 0);
  EXPECT_THAT(trainer.LiveGroups(), IsEmpty());
  EXPECT_TRUE(trainer.Close().ok()) << "a second close changes nothing";
  EXPECT_THAT(trainer.Fit(module, data).message(), HasSubstr("fit: this trainer was closed"));
}

TEST(TrainerOwnershipTest, TwentyTrainersThatOwnTheirPoolsMakeTwentyGroups) {
  PlaneData data(16, kWidth);
  LogisticModule module(kWidth);
  int64_t created = 0;
  for (int i = 0; i < 20; ++i) {
    Trainer trainer(Alone());
    ASSERT_TRUE(trainer.Test(module, data).ok());
    created += trainer.group_statistics().groups_created;
  }
  EXPECT_EQ(created, 20);
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

TEST(TrainerOwnershipTest, PerStageEachStageHasItsOwn) {
  ExpectOk(RunJob(2, [](Rank& rank) {
    TrainerOptions options = Options();
    options.group_lifetime = GroupLifetime::kStage;
    Trainer trainer(options, rank.pool);
    absl::Status status = FitValidateTest(trainer, rank);
    EXPECT_EQ(rank.pool.statistics().groups_created, 3);
    EXPECT_EQ(rank.pool.statistics().groups_reused, 0);
    EXPECT_EQ(rank.pool.statistics().groups_destroyed, 3);
    EXPECT_THAT(rank.pool.LiveGroups(), IsEmpty());
    return status;
  }));
}

TEST(TrainerOwnershipTest, EqualTrainersOnOnePoolShareOneGroupAndLeaveItThere) {
  ExpectOk(RunJob(2, [](Rank& rank) {
    for (int i = 0; i < 20; ++i) {
      // Not after the last one: then a faster rank's pool may have ended, and the group with it.
      EXPECT_EQ(rank.pool.LiveGroups().size(), i == 0 ? 0u : 1u);
      Trainer trainer(Options(), rank.pool);
      absl::Status status = trainer.Test(rank.module, rank.data);
      if (!status.ok()) return status;
    }
    EXPECT_EQ(rank.pool.statistics().groups_created, 1);
    EXPECT_EQ(rank.pool.statistics().groups_reused, 19);
    return absl::OkStatus();
  }));
}

TEST(TrainerOwnershipTest, ATrainerThatDiffersGetsItsOwnGroup) {
  ExpectOk(RunJob(2, [](Rank& rank) {
    Trainer one(Options(), rank.pool);
    TrainerOptions other = Options();
    other.group.name = "other";
    Trainer two(other, rank.pool);
    absl::Status status = one.Test(rank.module, rank.data);
    if (status.ok()) status = two.Test(rank.module, rank.data);
    EXPECT_EQ(rank.pool.statistics().groups_created, 2);
    EXPECT_EQ(rank.pool.LiveGroups().size(), 2u);
    if (status.ok()) status = one.Test(rank.module, rank.data);  // nobody leaves before all looked
    return status;
  }));
}

TEST(TrainerOwnershipTest, ABorrowedLeaseIsNeverClosed) {
  ExpectOk(RunJob(2, [](Rank& rank) {
    absl::StatusOr<GroupLease> mine = rank.pool.Acquire(Options().group);
    if (!mine.ok()) return mine.status();
    {
      absl::StatusOr<GroupLease> lent = rank.pool.Acquire(Options().group);
      if (!lent.ok()) return lent.status();
      Trainer trainer(Options(), *std::move(lent));
      absl::Status status = FitValidateTest(trainer, rank);
      if (status.ok()) status = trainer.Close();
      if (!status.ok()) return status;
    }
    EXPECT_EQ(rank.pool.statistics().groups_created, 1);
    EXPECT_EQ(rank.pool.statistics().groups_destroyed, 0);
    float value = 1;
    absl::Status status = (*mine)->AllReduce(Buffer::Of(value), ReduceOp::kSum);
    EXPECT_EQ(value, 2) << "the group outlives the trainer that borrowed it";
    return status;
  }));
}

TEST(TrainerOwnershipTest, ALeaseThatCannotBeUsedIsRefusedWithTheReason) {
  PlaneData data(16, kWidth);
  LogisticModule module(kWidth);
  Trainer empty(Options(), GroupLease());
  EXPECT_THAT(empty.Fit(module, data).message(), HasSubstr("empty lease"));
  ExpectOk(RunJob(1, [](Rank& rank) {
    TrainerOptions options = Options();
    options.group_lifetime = GroupLifetime::kStage;
    absl::StatusOr<GroupLease> lease = rank.pool.Acquire(options.group);
    if (!lease.ok()) return lease.status();
    Trainer trainer(options, *std::move(lease));
    EXPECT_THAT(trainer.Test(rank.module, rank.data).message(),
                HasSubstr("group_lifetime is kStage and the lease is borrowed"));
    return absl::OkStatus();
  }));
}

TEST(TrainerTest, ResultsAreThoseOfAllRanks) {
  ExpectOk(RunJob(3, [](Rank& rank) {
    Trainer trainer(Options(), rank.pool);
    EXPECT_FALSE(trainer.test_result().has_value());
    absl::Status status = FitValidateTest(trainer, rank);
    if (!status.ok()) return status;
    EXPECT_EQ(trainer.epochs().size(), 2u);
    EXPECT_EQ(trainer.epochs()[1].validation->count, 16);
    EXPECT_EQ(trainer.validation_result()->count, 16);
    EXPECT_EQ(trainer.test_result()->count, 16);
    EXPECT_GT(trainer.epochs()[0].samples_per_second, 0);
    return absl::OkStatus();
  }));
}

TEST(TrainerTest, ASecondThreadIsRefusedWhileAStageRuns) {
  class Blocking : public PlaneData {
   public:
    using PlaneData::PlaneData;
    absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) override {
      if (!begun.HasBeenNotified()) begun.Notify();
      go_on.WaitForNotification();
      return PlaneData::Read(indices, batch);
    }
    absl::Notification begun;
    absl::Notification go_on;
  };
  Blocking data(16, kWidth);
  PlaneData other_data(16, kWidth);
  LogisticModule module(kWidth);
  LogisticModule other(kWidth);
  Trainer trainer(Alone());
  std::thread thread([&] { EXPECT_TRUE(trainer.Fit(module, data).ok()); });
  data.begun.WaitForNotification();
  const absl::Status status = trainer.Test(other, other_data);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("test: this trainer is busy"));
  EXPECT_EQ(trainer.Close().code(), absl::StatusCode::kFailedPrecondition);
  data.go_on.Notify();
  thread.join();
  EXPECT_TRUE(trainer.Test(other, other_data).ok());
}

TEST(TrainerTest, WhatCannotBeIsSaidBeforeTheFirstStep) {
  PlaneData data(16, kWidth);
  PlaneData empty(0, kWidth);
  LogisticModule module(kWidth);
  TrainerOptions no_epochs = Alone();
  no_epochs.max_epochs = 0;
  EXPECT_THAT(Trainer(no_epochs).Fit(module, data).message(), HasSubstr("max_epochs is 0"));
  EXPECT_THAT(Trainer(Alone()).Fit(module, empty).message(), HasSubstr("the data set is empty"));
  EXPECT_THAT(Trainer(Alone()).Fit(module, data, empty).message(), HasSubstr("validation data"));
  EXPECT_THAT(Trainer(Alone()).Test(module, empty).message(), HasSubstr("0 samples"));
  TrainerOptions negative = Alone();
  negative.global_batch_size = -8;
  EXPECT_THAT(Trainer(negative).Validate(module, data).message(),
              HasSubstr("validate: global_batch_size is -8: give a multiple of the 1 ranks"));
  EXPECT_THAT(Trainer(negative).Test(module, data).message(),
              HasSubstr("test: global_batch_size is -8"));
  TrainerOptions unknown = Alone();
  unknown.group.backend = "carrier-pigeon";
  EXPECT_THAT(Trainer(unknown).Fit(module, data).message(), HasSubstr("carrier-pigeon"));
}

// PL#9851. The error is known to all, so the group survives it and the next stage uses it.
TEST(TrainerFailureTest, UnequalDataSetsAreEveryRanksErrorAndTheGroupGoesOn) {
  const auto statuses = RunJob(3, [](Rank& rank) {
    Trainer trainer(Options(), rank.pool);
    PlaneData odd(rank.rank == 2 ? 20 : 16, kWidth);
    const absl::Status status = trainer.Fit(rank.module, odd);
    EXPECT_TRUE(trainer.Fit(rank.module, rank.data).ok());
    EXPECT_EQ(rank.pool.statistics().groups_created, 1);
    EXPECT_EQ(rank.pool.statistics().groups_aborted, 0);
    return status;
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status.message(), HasSubstr("rank 2 has training samples 20 and rank 0 has 16"));
  }
}

// Fails, or throws, at the given batch of rank 1.
class Breaking : public PlaneData {
 public:
  Breaking(bool breaks, bool throws) : PlaneData(16, kWidth), breaks_(breaks), throws_(throws) {}
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) override {
    if (breaks_ && ++batches_ == 2) {
      if (throws_) throw std::runtime_error("label 17");
      return absl::DataLossError("label 17 out of range [0, 10)");
    }
    return PlaneData::Read(indices, batch);
  }

 private:
  const bool breaks_;
  const bool throws_;
  int batches_ = 0;
};

TEST(TrainerFailureTest, OneRanksErrorIsEveryRanksCauseAndANewAttemptWorks) {
  const auto statuses = RunJob(3, [](Rank& rank) {
    Trainer trainer(Options(), rank.pool);
    Breaking data(rank.rank == 1, /*throws=*/false);
    const absl::Status status = trainer.Fit(rank.module, data);
    const absl::Status again = trainer.Fit(rank.module, rank.data);
    EXPECT_TRUE(again.ok()) << "a new generation, at once: rank " << rank.rank << ": " << again;
    EXPECT_EQ(rank.pool.statistics().groups_created, 2);
    return status;
  });
  EXPECT_EQ(statuses[1], absl::DataLossError("fit 1/2, batch 2: label 17 out of range [0, 10)"));
  for (int rank : {0, 2}) {
    EXPECT_THAT(statuses[rank].message(), HasSubstr("rank 1"));
    EXPECT_THAT(statuses[rank].message(), HasSubstr("label 17 out of range [0, 10)"));
  }
}

// Writes down what is called, and fails where it is told to.
class Recorder : public Callback {
 public:
  Recorder(std::string name, std::vector<std::string>& log, bool set_up_fails = false)
      : name_(std::move(name)), log_(log), set_up_fails_(set_up_fails) {}
  absl::Status SetUp(const StageInfo& stage) override {
    log_.push_back(absl::StrCat("set up ", name_, " for ", stage.stage));
    return set_up_fails_ ? absl::InternalError("no scratch space") : absl::OkStatus();
  }
  absl::Status OnEpochEnd(const StageInfo&, const EpochResult& result) override {
    log_.push_back(absl::StrCat(name_, " saw epoch ", result.epoch));
    return absl::OkStatus();
  }
  void TearDown(const StageInfo&, const absl::Status& outcome) noexcept override {
    log_.push_back(absl::StrCat("tear down ", name_, ": ",
                                outcome.ok() ? "ok" : std::string(outcome.message())));
  }

 private:
  const std::string name_;
  std::vector<std::string>& log_;
  const bool set_up_fails_;
};

// PL#19594: teardown was skipped after an exception.
TEST(TrainerFailureTest, AnExceptionPassesThroughEndsThePeersAndTearsDownInReverse) {
  std::vector<std::string> log;
  const auto statuses = RunJob(2, [&log](Rank& rank) {
    TrainerOptions options = Options();
    std::vector<std::string> other_log;
    auto& mine = rank.rank == 1 ? log : other_log;
    options.callbacks = {std::make_shared<Recorder>("a", mine),
                         std::make_shared<Recorder>("b", mine)};
    Trainer trainer(options, rank.pool);
    Breaking data(rank.rank == 1, /*throws=*/true);
    if (rank.rank == 1) {
      EXPECT_THROW(trainer.Fit(rank.module, data).IgnoreError(), std::runtime_error);
      return absl::OkStatus();
    }
    return trainer.Fit(rank.module, data);
  });
  EXPECT_THAT(statuses[0].message(), HasSubstr("rank 1 left: \"an exception left fit: label 17\""));
  EXPECT_THAT(log, ElementsAre("set up a for fit", "set up b for fit",
                               "tear down b: an exception left fit: label 17",
                               "tear down a: an exception left fit: label 17"));
}

TEST(TrainerFailureTest, WhatIsThrownNeedNotBeAnException) {
  class Throwing : public PlaneData {
   public:
    using PlaneData::PlaneData;
    absl::Status Read(absl::Span<const int64_t>, Batch&) override { throw 17; }
  };
  const auto statuses = RunJob(2, [](Rank& rank) {
    Trainer trainer(Options(), rank.pool);
    Throwing data(16, kWidth);
    if (rank.rank == 0) return trainer.Fit(rank.module, rank.data);
    EXPECT_THROW(trainer.Fit(rank.module, data).IgnoreError(), int);
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses[0].message(), HasSubstr("rank 1 left: \"an exception left fit\""));
}

TEST(TrainerFailureTest, AnExceptionWithABorrowedLeaseEndsThePeersToo) {
  const auto statuses = RunJob(2, [](Rank& rank) {
    absl::StatusOr<GroupLease> lease = rank.pool.Acquire(Options().group);
    if (!lease.ok()) return lease.status();
    Trainer trainer(Options(), *std::move(lease));
    Breaking data(rank.rank == 1, /*throws=*/true);
    if (rank.rank == 1) {
      EXPECT_THROW(trainer.Fit(rank.module, data).IgnoreError(), std::runtime_error);
      return absl::OkStatus();
    }
    return trainer.Fit(rank.module, data);
  });
  EXPECT_THAT(statuses[0].message(), HasSubstr("an exception left fit: label 17"));
}

// What OnEpochEnd of a rank does.
class AtEpochEnd : public Callback {
 public:
  explicit AtEpochEnd(std::function<absl::Status()> act) : act_(std::move(act)) {}
  absl::Status OnEpochEnd(const StageInfo&, const EpochResult&) override { return act_(); }

 private:
  const std::function<absl::Status()> act_;
};

// What every rank finds out at the same place is nobody's failure: the group goes on.
void ExpectTheGroupGoesOn(const std::function<absl::Status(Rank&)>& at_epoch_end,
                          const std::string& said) {
  const auto statuses = RunJob(3, [&at_epoch_end](Rank& rank) {
    TrainerOptions options = Options();
    options.max_epochs = 1;
    options.callbacks = {
        std::make_shared<AtEpochEnd>([&at_epoch_end, &rank] { return at_epoch_end(rank); })};
    absl::Status status = Trainer(options, rank.pool).Fit(rank.module, rank.data);
    Trainer again(Options(), rank.pool);
    EXPECT_TRUE(again.Fit(rank.module, rank.data).ok());
    EXPECT_EQ(rank.pool.statistics().groups_created, 1);
    EXPECT_EQ(rank.pool.statistics().groups_aborted, 0);
    return status;
  });
  for (const absl::Status& status : statuses) EXPECT_THAT(status.message(), HasSubstr(said));
}

TEST(TrainerFailureTest, WeightsThatDriftedApartAreEveryRanksErrorAndTheGroupGoesOn) {
  ExpectTheGroupGoesOn(
      [](Rank& rank) {
        if (rank.rank == 2) rank.module.mutable_weight()[0] += 1;
        return absl::OkStatus();
      },
      "fit, after the last step: parameter weight of rank 2 differs");
}

TEST(TrainerFailureTest, AnEpochEndThatStopsOneRankStopsAllAndTheGroupGoesOn) {
  ExpectTheGroupGoesOn(
      [](Rank& rank) {
        return rank.rank == 1 ? absl::CancelledError("good enough") : absl::OkStatus();
      },
      "rank 1: fit 1/1: good enough");
}

TEST(TrainerFailureTest, AnEpochEndThatStopsEveryRankLeavesTheGroupToo) {
  ExpectTheGroupGoesOn([](Rank&) { return absl::CancelledError("good enough"); },
                       "fit 1/1: good enough");
}

TEST(TrainerFailureTest, WhoCouldNotAskTheOthersDoesNotTakeItsErrorForKnown) {
  GroupLease empty;  // every operation fails
  GroupCollectives collectives(*empty);
  EXPECT_FALSE(collectives.failed());
  float value = 0;
  EXPECT_FALSE(collectives.AllReduce(Buffer::Of(value), ReduceOp::kSum).ok());
  EXPECT_TRUE(collectives.failed());
}

TEST(TrainerFailureTest, ASetUpThatFailsUndoesTheEarlierOnesAndNamesItselfToThePeers) {
  std::vector<std::string> log;
  const auto statuses = RunJob(2, [&log](Rank& rank) {
    TrainerOptions options = Options();
    if (rank.rank == 1) {
      options.callbacks = {std::make_shared<Recorder>("a", log),
                           std::make_shared<Recorder>("b", log, /*set_up_fails=*/true),
                           std::make_shared<Recorder>("c", log)};
    }
    Trainer trainer(options, rank.pool);
    return trainer.Fit(rank.module, rank.data);
  });
  EXPECT_EQ(statuses[1], absl::InternalError("fit, set-up: no scratch space"));
  EXPECT_THAT(statuses[0].message(), HasSubstr("no scratch space"));
  EXPECT_THAT(log, ElementsAre("set up a for fit", "set up b for fit",
                               "tear down a: fit, set-up: no scratch space"));
}

TEST(TrainerTest, CallbacksSeeEachEpochAndAreTornDownAfterSuccess) {
  std::vector<std::string> log;
  PlaneData data(16, kWidth);
  LogisticModule module(kWidth);
  TrainerOptions options = Alone();
  options.callbacks = {std::make_shared<Recorder>("a", log)};
  Trainer trainer(options);
  ASSERT_TRUE(trainer.Fit(module, data).ok());
  EXPECT_THAT(log,
              ElementsAre("set up a for fit", "a saw epoch 1", "a saw epoch 2", "tear down a: ok"));
  log.clear();
  ASSERT_TRUE(trainer.Validate(module, data).ok());
  EXPECT_THAT(log, ElementsAre("set up a for validate", "tear down a: ok"));
}

}  // namespace
}  // namespace muster

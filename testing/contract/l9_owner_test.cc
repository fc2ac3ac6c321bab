// L9: only the owner closes: who shares a group, who borrows it and who does not, counted by the
// library's own counters and by what the process holds.
#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/testing/multi_rank_test.h"
#include "muster/trainer/logistic_module.h"
#include "muster/trainer/trainer.h"

namespace muster {
namespace {

constexpr int kTrainers = 20;

// Counts generations that became ready, over all pools of this process.
class ReadyCounter final : public Observer {
 public:
  void OnTransition(const TransitionEvent& event) override {
    if (event.to == GroupState::kReady) ++ready_;
  }
  int ready() const { return ready_; }

 private:
  std::atomic<int> ready_{0};
};

// A base, as its counter is to outlive the pool of the test.
struct Counted {
  mutable ReadyCounter counter_;
};

class OwnerTest : protected Counted, public testing::MultiRankTest {
 protected:
  OwnerTest() : module_(4), data_(64, 4) {}
  void SetUp() override { before_ = ProcessHoldings::Now(); }

  PoolOptions pool_options() const override {
    PoolOptions options = MultiRankTest::pool_options();
    options.observer = &counter_;
    return options;
  }

  TrainerOptions Options() const {
    TrainerOptions options;
    options.max_epochs = 1;
    options.batch_size = 8;
    options.group = spec();
    options.group.name = "train";
    options.pool = pool_options();
    return options;
  }

  void FitValidateTest(Trainer& trainer) {
    ASSERT_OK(trainer.Fit(module_, data_, data_));
    ASSERT_OK(trainer.Validate(module_, data_));
    ASSERT_OK(trainer.Test(module_, data_));
  }

  void ExpectNothingLeft() {
    EXPECT_EQ(ProcessHoldings::Beyond(before_, Scaled(absl::Seconds(2))).ToString(), "nothing");
  }

  LogisticModule module_;
  PlaneData data_;
  ProcessHoldings before_;
};

TEST_F(OwnerTest, FitValidateAndTestShareOneGroupThatDiesWithTheTrainer) {
  {
    Trainer trainer(Options());
    FitValidateTest(trainer);
    EXPECT_EQ(trainer.group_statistics().groups_created, 1);
    EXPECT_EQ(trainer.group_statistics().groups_reused, 2);
  }
  EXPECT_EQ(counter_.ready(), 1);
  ExpectNothingLeft();
}

TEST_F(OwnerTest, EqualTrainersOnTheCallersPoolShareOneGroup) {
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<GroupPool> mine, GroupPool::FromEnvironment(pool_options()));
  for (int i = 0; i < kTrainers; ++i) {
    Trainer trainer(Options(), *mine);
    ASSERT_OK(trainer.Fit(module_, data_));
  }
  EXPECT_EQ(mine->statistics().groups_created, 1);
  EXPECT_EQ(mine->statistics().groups_reused, kTrainers - 1);
  mine.reset();
  ExpectNothingLeft();
}

TEST_F(OwnerTest, TrainersThatOwnTheirPoolsShareNothing) {
  for (int i = 1; i <= kTrainers; ++i) {
    {
      Trainer trainer(Options());
      ASSERT_OK(trainer.Fit(module_, data_));
    }
    EXPECT_EQ(counter_.ready(), i);
    ExpectNothingLeft();
  }
}

TEST_F(OwnerTest, WithStageLifetimeEachStageHasItsOwnGroup) {
  TrainerOptions options = Options();
  options.group_lifetime = GroupLifetime::kStage;
  Trainer trainer(options);
  FitValidateTest(trainer);
  EXPECT_EQ(trainer.group_statistics().groups_created, 3);
  EXPECT_EQ(trainer.group_statistics().groups_destroyed, 3);
  EXPECT_EQ(trainer.group_statistics().groups_reused, 0);
  EXPECT_THAT(trainer.LiveGroups(), ::testing::IsEmpty());
}

TEST_F(OwnerTest, ATrainerThatDiffersNeverShares) {
  Trainer first(Options(), pool());
  ASSERT_OK(first.Fit(module_, data_));
  TrainerOptions other = Options();
  other.group.backend = backend() == "reference" ? "gloo" : "reference";
  Trainer second(other, pool());
  ASSERT_OK(second.Fit(module_, data_));
  EXPECT_EQ(pool().statistics().groups_created, 2);
  EXPECT_EQ(pool().statistics().groups_reused, 0);
  ASSERT_EQ(pool().LiveGroups().size(), 1u) << "the idle one gave its name free";
  EXPECT_EQ(pool().LiveGroups()[0].backend, other.group.backend);
  ASSERT_OK(second.Test(module_, data_));  // nobody's pool ends before all have looked
}

TEST_F(OwnerTest, ABorrowedGroupStaysOpenAfterTheTrainer) {
  GroupSpec group = spec();
  group.name = "mine";
  ASSERT_OK_AND_ASSIGN(GroupLease mine, pool().Acquire(group));
  ASSERT_OK_AND_ASSIGN(GroupLease lent, pool().Acquire(group));
  EXPECT_OK(mine->BarrierAsync().Wait());  // the group's own thread starts with its first use
  const ProcessHoldings with_group = ProcessHoldings::Now();
  {
    Trainer trainer(Options(), std::move(lent));
    FitValidateTest(trainer);
  }
  EXPECT_EQ(ProcessHoldings::Beyond(with_group, Scaled(absl::Seconds(2))).ToString(), "nothing");
  EXPECT_EQ(mine->state(), GroupState::kReady);
  float value = 1;
  EXPECT_OK(mine->AllReduce(Buffer::Of(value), ReduceOp::kSum));
  EXPECT_EQ(value, world_size());
  EXPECT_EQ(pool().statistics().groups_created, 1);
}

// PT#67566: the end of one group deletes what another one uses.
TEST_F(OwnerTest, TheEndOfOneGroupTakesNothingFromAnother) {
  GroupSpec one = spec();
  GroupSpec other = spec();
  one.name = "train";
  other.name = "train-2";
  ASSERT_OK_AND_ASSIGN(GroupLease other_lease, pool().Acquire(other));
  for (int i = 1; i <= 5; ++i) {
    absl::StatusOr<GroupLease> lease = pool().Acquire(one);
    if (i % 2 == 0) {
      ASSERT_OK(lease);
      EXPECT_OK(lease->Close());
    } else if (lease.ok()) {  // no other rank's abort has come before
      lease->Abort(absl::CancelledError("enough"));
    }
    float value = 1;
    EXPECT_OK(other_lease->AllReduce(Buffer::Of(value), ReduceOp::kSum));
    EXPECT_EQ(value, world_size());
  }
  EXPECT_OK(other_lease.Close());
}

}  // namespace
}  // namespace muster

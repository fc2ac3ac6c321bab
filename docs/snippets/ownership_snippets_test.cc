// docs/lifecycle.md and docs/start.md: who ends a trainer's group.
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/trainer/trainer.h"

namespace {

TEST(OwnershipSnippets, ThreeWaysToBringAGroup) {
  const absl::StatusOr<std::unique_ptr<muster::GroupPool>> made =
      muster::GroupPool::Create(muster::World());
  ASSERT_TRUE(made.ok()) << made.status();
  muster::GroupPool& pool = **made;
  muster::TrainerOptions options;

  muster::Trainer own(options);           // a pool of its own: the group dies with the trainer
  muster::Trainer shares(options, pool);  // the caller's pool: N equal trainers, one group

  absl::StatusOr<muster::GroupLease> lease = pool.Acquire(options.group);
  if (!lease.ok()) FAIL() << lease.status();
  muster::Trainer borrows(options, *std::move(lease));  // never closes it

  EXPECT_EQ(pool.LiveGroups().size(), 1);
  EXPECT_TRUE(borrows.Close().ok());
  EXPECT_EQ(pool.LiveGroups().size(), 1);
}

}  // namespace

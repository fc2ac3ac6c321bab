// docs/lifecycle.md: what it shows in code, run on a world of one rank.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"

namespace {

using ::testing::HasSubstr;

class LifecycleSnippets : public ::testing::Test {
 protected:
  LifecycleSnippets() : pool_(*muster::GroupPool::Create(muster::World())), pool(*pool_) {
    spec.name = "train";
    spec.backend = "reference";
  }

  const std::unique_ptr<muster::GroupPool> pool_;
  muster::GroupPool& pool;
  muster::GroupSpec spec;
};

TEST_F(LifecycleSnippets, AnEqualSpecIsTheSameGroup) {
  absl::StatusOr<muster::GroupLease> first = pool.Acquire(spec);
  absl::StatusOr<muster::GroupLease> second = pool.Acquire(spec);  // no communication
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->id(), (*second)->id());  // "train/1"
  EXPECT_EQ(pool.statistics().groups_created, 1);
  EXPECT_EQ(pool.statistics().groups_reused, 1);

  spec.operation_timeout = absl::Minutes(2);  // belongs to the lease, not to the group's identity
  absl::StatusOr<muster::GroupLease> patient = pool.Acquire(spec);
  ASSERT_TRUE(patient.ok());
  EXPECT_EQ((*patient)->id(), "train/1");
}

TEST_F(LifecycleSnippets, AnotherIdentityWaitsForItsName) {
  absl::StatusOr<muster::GroupLease> one = pool.Acquire(spec);
  ASSERT_TRUE(one.ok());
  muster::GroupSpec other = spec;
  other.backend = "counting";
  EXPECT_TRUE(absl::IsFailedPrecondition(pool.Acquire(other).status()));  // names the holder

  one->Release();
  absl::StatusOr<muster::GroupLease> two = pool.Acquire(other);  // closes train/1 on every rank
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ((*two)->id(), "train/2");
}

TEST_F(LifecycleSnippets, MembersAreRanksOfTheJob) {
  const int rank = pool.rank();
  muster::GroupSpec pair;
  pair.name = "pair";
  pair.members = {rank % 2, rank % 2 + 2};  // ranks 0 and 2, and beside them ranks 1 and 3
  pair.backend = "reference";
  // This job has one rank.
  EXPECT_THAT(std::string(pool.Acquire(pair).status().message()),
              HasSubstr("has rank 2 in a job of 1 ranks"));
}

TEST_F(LifecycleSnippets, AParentOutlivesItsChildren) {
  absl::StatusOr<muster::GroupLease> parent = pool.Acquire(spec);
  ASSERT_TRUE(parent.ok()) << parent.status();
  absl::StatusOr<muster::GroupLease> child = (*parent)->Split(/*color=*/0, /*key=*/0);
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ((*child)->id(), "train:split1.color0/1");

  EXPECT_TRUE(absl::IsFailedPrecondition(parent->Close()));  // names the child
  EXPECT_TRUE(parent->CloseWithChildren().ok());
}

TEST_F(LifecycleSnippets, OnlyTheLastHolderCloses) {
  absl::StatusOr<muster::GroupLease> mine = pool.Acquire(spec);
  absl::StatusOr<muster::GroupLease> yours = pool.Acquire(spec);
  ASSERT_TRUE(mine.ok() && yours.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(mine->Close()));  // "... use Release"
  yours->Release();
  EXPECT_TRUE(mine->Close().ok());
  EXPECT_TRUE(mine->Close().ok());  // any number of times, the same result
}

TEST_F(LifecycleSnippets, AfterTheEndEveryOperationSaysWhy) {
  absl::StatusOr<muster::GroupLease> group = pool.Acquire(spec);
  ASSERT_TRUE(group.ok());
  group->Abort(absl::DataLossError("label 17 out of range [0, 10)"));
  std::vector<float> values(4);
  absl::Status status =
      (*group)->AllReduce(muster::Buffer::Of(absl::MakeSpan(values)), muster::ReduceOp::kSum);
  EXPECT_THAT(std::string(status.message()), HasSubstr("label 17 out of range"));

  group->Release();
  absl::StatusOr<muster::GroupLease> next = pool.Acquire(spec);  // works at once: train/2
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*next)->id(), "train/2");
}

TEST_F(LifecycleSnippets, WhatIsAliveCanBeListed) {
  absl::StatusOr<muster::GroupLease> group = pool.Acquire(spec);
  ASSERT_TRUE(group.ok());
  for (const muster::LiveGroup& live : pool.LiveGroups()) {
    // "train/1, ready, 1 holder, created at lifecycle_snippets_test.cc:97"
    EXPECT_THAT(live.ToString(), HasSubstr("train/1, ready, 1 holder, created at"));
  }
  EXPECT_EQ(pool.LiveGroups().size(), 1);
}

TEST_F(LifecycleSnippets, AsynchronousOperationsKeepTheirOrder) {
  absl::StatusOr<muster::GroupLease> group = pool.Acquire(spec);
  ASSERT_TRUE(group.ok());
  std::vector<float> gradients(4, 1);
  muster::Work work = (*group)->AllReduceAsync(muster::Buffer::Of(absl::MakeSpan(gradients)),
                                               muster::ReduceOp::kAverage);
  // ... something else; `gradients` are the operation's until it is done ...
  absl::Status status = work.Wait();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace

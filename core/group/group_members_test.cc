// Groups over some ranks of the job: who is who in them, what their failures say, and how many
// there may be at once.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/test_job.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/split_mix64.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

GroupSpec Over(std::vector<int> members, const std::string& name = "part") {
  GroupSpec spec = TestJob::Spec();
  spec.name = name;
  spec.members = std::move(members);
  return spec;
}

float Sum(GroupLease& lease, float value) {
  const absl::Status status = lease->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  EXPECT_TRUE(status.ok()) << status;
  return value;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Even and odd ranks, under one name.
std::vector<absl::StatusOr<GroupLease>> AcquireHalves(TestJob& job) {
  std::vector<absl::StatusOr<GroupLease>> leases(4);
  job.OnEachRank([&](int rank) {
    leases[rank] = job.pool(rank).Acquire(rank % 2 == 0 ? Over({0, 2}) : Over({3, 1}));
  });
  return leases;
}

TEST(GroupMembersTest, TwoGroupsOfOneNameWithoutARankInCommonLiveSideBySide) {
  TestJob job(4);
  auto leases = AcquireHalves(job);
  job.OnEachRank([&](int rank) {
    ASSERT_TRUE(leases[rank].ok()) << leases[rank].status();
    Group& group = **leases[rank];
    EXPECT_EQ(group.size(), 2);
    EXPECT_EQ(group.rank(), rank == 0 || rank == 3 ? 0 : 1) << "members are in the order given";
    EXPECT_EQ(group.id(), "part/1");
    EXPECT_EQ(Sum(*leases[rank], static_cast<float>(rank)), rank % 2 == 0 ? 2 : 4);
  });
  // The end of one is nothing to the other.
  EXPECT_TRUE(leases[0]->Close().ok());
  EXPECT_EQ((*leases[2])->AllReduce(Buffer(), ReduceOp::kSum).code(),
            absl::StatusCode::kFailedPrecondition);
  for (const int rank : {1, 3}) EXPECT_TRUE((*leases[rank])->status().ok());
}

TEST(GroupMembersTest, AllRanksInTheirOrderAreTheGroupWithoutMembers) {
  TestJob job(2);
  auto all = job.AcquireAll(Over({}));
  auto named = job.AcquireAll(Over({0, 1}));
  for (auto& lease : named) {
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ((*lease)->generation(), 1);
  }
  EXPECT_EQ(job.pool(0).statistics().groups_reused, 1);
}

TEST(GroupMembersTest, OnlyMembersOfTheJobAcquire) {
  TestJob job(2);
  EXPECT_EQ(Message(job.pool(0).Acquire(Over({1})).status()),
            "GroupSpec.members of 'part' (1) has no rank 0: only its members acquire a group");
  EXPECT_EQ(Message(job.pool(0).Acquire(Over({0, 2})).status()),
            "GroupSpec.members of 'part' (0, 2) has rank 2 in a job of 2 ranks: ranks are 0 to 1");
}

TEST(GroupMembersTest, AFailureOfAMemberIsNamedByItsRankInTheJobAndTheOtherGroupGoesOn) {
  TestJob job(4);
  auto leases = AcquireHalves(job);
  leases[3]->Abort(absl::DataLossError("label 17 out of range"));
  float value = 1;
  const absl::Status status = (*leases[1])->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status), HasSubstr("rank 3 left: \"label 17 out of range\""));
  job.OnEachRank([&](int rank) {
    if (rank % 2 == 0) {
      EXPECT_EQ(Sum(*leases[rank], 1), 2);
    }
  });
}

TEST(GroupMembersTest, ALostMemberIsNamedAndALostStrangerIsNothing) {
  TestJob job(4);
  auto leases = AcquireHalves(job);
  job.server().DeclareLost(3, "killed by signal 9");
  float value = 1;
  const absl::Status status = (*leases[1])->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  EXPECT_THAT(Message(status), HasSubstr("rank 3 (host"));
  EXPECT_THAT(Message(status), HasSubstr("killed by signal 9"));
  job.OnEachRank([&](int rank) {
    if (rank % 2 == 0) {
      EXPECT_EQ(Sum(*leases[rank], 1), 2);
    }
  });
}

TEST(GroupMembersTest, WhatABackendSaysOfItsRanksIsSaidOfRanksOfTheJob) {
  TestJob job(4);
  job.world().rules[1].operation_error = absl::InternalError("rank 0 sent too much");
  auto leases = AcquireHalves(job);
  float value = 1;
  EXPECT_THAT(Message((*leases[2])->AllReduce(Buffer::Of(value), ReduceOp::kSum)),
              HasSubstr("rank 2: rank 0 sent too much"));
  EXPECT_THAT(Message((*leases[1])->AllReduce(Buffer::Of(value), ReduceOp::kSum)),
              HasSubstr("rank 1: rank 3 sent too much"));
}

TEST(GroupMembersTest, AMemberThatNeverComesIsNamed) {
  TestJob job(4);
  GroupSpec spec = Over({3, 0, 1});
  spec.setup_timeout = absl::Milliseconds(200);
  std::vector<absl::Status> results(4);
  job.OnEachRank([&](int rank) {
    if (rank == 0 || rank == 1) results[rank] = job.pool(rank).Acquire(spec).status();
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(results[rank].code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(Message(results[rank]),
                HasSubstr("rank 3 of ranks 0, 1, 3 did not call Acquire for it in time"));
  }
}

TEST(GroupMembersTest, AGroupOverFewerRanksTakesTheNameWhenItIsFree) {
  TestJob job(4);
  auto all = job.AcquireAll(Over({}));
  for (auto& lease : all) lease->Release();
  auto halves = AcquireHalves(job);
  job.OnEachRank([&](int rank) {
    ASSERT_TRUE(halves[rank].ok()) << halves[rank].status();
    EXPECT_EQ(Sum(*halves[rank], 1), 2);
  });
}

TEST(GroupMembersTest, RanksThatAskForDifferentMembersAreToldAtOnce) {
  TestJob job(3);
  std::vector<absl::Status> results(3);
  const absl::Time began = MonotonicNow();
  job.OnEachRank([&](int rank) {
    if (rank == 2) return;
    GroupSpec spec = rank == 0 ? Over({0, 1}) : Over({});
    spec.setup_timeout = absl::Hours(1);
    results[rank] = job.pool(rank).Acquire(spec).status();
  });
  EXPECT_LT(MonotonicNow() - began, absl::Seconds(5) * TimeoutScale());
  for (const int rank : {0, 1}) {
    EXPECT_EQ(results[rank].code(), absl::StatusCode::kFailedPrecondition) << results[rank];
    EXPECT_THAT(Message(results[rank]),
                HasSubstr("ranks 0, 1 wait for each other: rank 0 in 'part' of ranks 0, 1 for rank "
                          "1, rank 1 in 'part' for rank 0; make the same groups"));
  }
}

// Every rank acquires the group with itself as a first member before the one with the rank before.
TEST(GroupMembersTest, RanksThatAcquireInDifferentOrdersAreToldTheCycleAtOnce) {
  for (const int ranks : {2, 3}) {
    TestJob job(ranks);
    std::vector<absl::Status> results(ranks);
    const absl::Time began = MonotonicNow();
    job.OnEachRank([&](int rank) {
      GroupSpec spec = TestJob::Spec();
      spec.name = absl::StrCat("of_", rank);
      spec.setup_timeout = absl::Hours(1);
      if (ranks > 2) spec.members = {rank, (rank + 1) % ranks};
      results[rank] = job.pool(rank).Acquire(spec).status();
    });
    EXPECT_LT(MonotonicNow() - began, absl::Seconds(5) * TimeoutScale());
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(results[rank].code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(Message(results[rank]), HasSubstr("wait for each other: rank 0 in 'of_0'"));
      EXPECT_EQ(Message(results[rank]).substr(Message(results[rank]).find("wait")),
                Message(results[0]).substr(Message(results[0]).find("wait")));
    }
    // And the right order works at once.
    auto leases = job.AcquireAll(TestJob::Spec());
    for (auto& lease : leases) EXPECT_TRUE(lease.ok()) << lease.status();
  }
}

TEST(GroupMembersTest, SeveralThreadsOfARankMayAcquireInAnyOrder) {
  TestJob job(2);
  GroupSpec first = TestJob::Spec();
  first.name = "first";
  GroupSpec second = TestJob::Spec();
  second.name = "second";
  std::vector<absl::StatusOr<GroupLease>> leases(4);
  job.OnEachRank([&](int rank) {
    const size_t first_lease = 2 * static_cast<size_t>(rank);
    std::thread other(
        [&] { leases[first_lease] = job.pool(rank).Acquire(rank == 0 ? first : second); });
    leases[first_lease + 1] = job.pool(rank).Acquire(rank == 0 ? second : first);
    other.join();
  });
  for (auto& lease : leases) EXPECT_TRUE(lease.ok()) << lease.status();
}

TEST(GroupMembersTest, ManyGroupsAtOnceEndInAnotherOrderOnEachRank) {
  constexpr int kGroups = 20;
  TestJob job(3);
  std::vector<std::vector<GroupLease>> leases(3);
  job.OnEachRank([&](int rank) {
    for (int i = 0; i < kGroups; ++i) {
      const std::vector<int> members = {i % 3, (i + 1) % 3};
      if (std::count(members.begin(), members.end(), rank) == 0) continue;
      auto lease = job.pool(rank).Acquire(Over(members, absl::StrCat("group", i)));
      ASSERT_TRUE(lease.ok()) << lease.status();
      leases[rank].push_back(*std::move(lease));
    }
    SplitMix64 random(static_cast<uint64_t>(rank));
    for (size_t i = leases[rank].size(); i > 1; --i) {
      std::swap(leases[rank][i - 1], leases[rank][random.Below(i)]);
    }
  });
  job.OnEachRank([&](int rank) {
    for (GroupLease& lease : leases[rank]) {
      const absl::Status closed = lease.Close();
      EXPECT_TRUE(closed.ok()) << closed;
    }
    EXPECT_TRUE(job.pool(rank).LiveGroups().empty());
  });
}

}  // namespace
}  // namespace muster

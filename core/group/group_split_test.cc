// Groups that are made by dividing one: who is in which, how they live beside their parent, and
// what becomes of a Split that not every rank comes to.
#include <string>
#include <thread>  // NOLINT(build/c++11): ranks are threads here
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/test_job.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/split_mix64.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Leases = std::vector<absl::StatusOr<GroupLease>>;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

float Sum(GroupLease& lease, float value) {
  const absl::Status status = lease->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  EXPECT_TRUE(status.ok()) << status;
  return value;
}

absl::Status Try(GroupLease& lease) {
  float value = 1;
  return lease->AllReduce(Buffer::Of(value), ReduceOp::kSum);
}

// A job of four with a group over all.
class GroupSplitTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;
  explicit GroupSplitTest(PoolOptions options = {}) : job_(kRanks, options) {
    parents_ = job_.AcquireAll(TestJob::Spec());
    for (auto& parent : parents_) EXPECT_TRUE(parent.ok()) << parent.status();
  }

  template <class Color, class Key>
  Leases SplitAll(Leases& of, Color color, Key key) {
    Leases children(kRanks);
    job_.OnEachRank([&](int rank) { children[rank] = (*of[rank])->Split(color(rank), key(rank)); });
    return children;
  }
  // Even ranks in color 0, odd ones in color 1.
  Leases Halves() {
    return SplitAll(parents_, [](int rank) { return rank % 2; }, [](int) { return 0; });
  }

  TestJob job_;
  Leases parents_;
};

TEST_F(GroupSplitTest, RanksOfOneColorAreAGroupInTheOrderOfTheirKeys) {
  Leases children = SplitAll(
      parents_, [](int rank) { return rank == 2 ? Group::kNoColor : 5; },
      [](int rank) { return rank == 3 ? -1 : 7; });
  job_.OnEachRank([&](int rank) {
    ASSERT_TRUE(children[rank].ok()) << children[rank].status();
    if (rank == 2) {
      EXPECT_TRUE(children[rank]->empty());
      return;
    }
    Group& child = **children[rank];
    EXPECT_EQ(child.id(), "train:split1.color5/1");
    EXPECT_EQ(child.size(), 3);
    EXPECT_EQ(child.rank(), rank == 3 ? 0 : rank + 1);
    EXPECT_EQ(child.backend(), "fake");
    EXPECT_EQ(Sum(*children[rank], static_cast<float>(rank)), 4);
  });
}

TEST_F(GroupSplitTest, GroupsOfDifferentColorsAndTheirParentWorkAtOnce) {
  Leases children = Halves();
  job_.OnEachRank([&](int rank) {
    ASSERT_TRUE(children[rank].ok()) << children[rank].status();
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(Sum(*children[rank], static_cast<float>(rank)), rank % 2 == 0 ? 2 : 4);
      EXPECT_EQ(Sum(*parents_[rank], 1), kRanks);
    }
  });
}

TEST_F(GroupSplitTest, TheSameColorsTwiceInARowAreTwoGroups) {
  Leases first = Halves();
  Leases second = Halves();
  EXPECT_EQ((*first[1])->id(), "train:split1.color1/1");
  EXPECT_EQ((*second[1])->id(), "train:split2.color1/1");
  EXPECT_TRUE(first[1]->Close().ok());
  for (const int rank : {1, 3}) EXPECT_TRUE((*second[rank])->status().ok());
}

TEST_F(GroupSplitTest, ASplitOfASplitIsAGroupLikeAnother) {
  Leases halves = Halves();
  Leases singles = SplitAll(halves, [](int rank) { return rank; }, [](int) { return 0; });
  job_.OnEachRank([&](int rank) {
    ASSERT_TRUE(singles[rank].ok()) << singles[rank].status();
    EXPECT_EQ((*singles[rank])->name(),
              absl::StrCat("train:split1.color", rank % 2, ":split1.color", rank));
    EXPECT_EQ((*singles[rank])->size(), 1);
    EXPECT_EQ(Sum(*singles[rank], 3), 3);
  });
}

TEST_F(GroupSplitTest, ALoopOfSplitsNeedsOneNameAndLeavesNothing) {
  const size_t rounds = 30;
  for (size_t i = 0; i < rounds; ++i) {
    Leases children = Halves();
    for (auto& child : children) {
      ASSERT_TRUE(child.ok()) << child.status();
      EXPECT_EQ((*child)->name().substr(0, 13), "train:split1.");
    }
    job_.OnEachRank([&](int rank) { children[rank]->Release(); });
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(job_.pool(rank).LiveGroups().size(), 1u) << "only the parent is left";
    EXPECT_EQ(job_.pool(rank).statistics().groups_created, 1 + static_cast<int64_t>(rounds));
  }
  EXPECT_EQ(job_.world().live(), kRanks);
}

TEST_F(GroupSplitTest, AChildClosesWithItsLastLeaseAndSaysWhoseItIs) {
  Leases children = Halves();
  std::vector<std::string> live;
  for (const LiveGroup& group : job_.pool(0).LiveGroups()) live.push_back(group.ToString());
  EXPECT_THAT(live, ElementsAre(HasSubstr("train/1, ready"),
                                HasSubstr("train:split1.color0/1, ready, 1 holder, split from "
                                          "train/1, created at group_split_test.cc:")));
  children[0]->Release();
  EXPECT_EQ(job_.pool(0).LiveGroups().size(), 1u);
  EXPECT_THAT(Message(Try(*children[2])), HasSubstr("rank 0 closed after #0"));
}

// --- failures

TEST_F(GroupSplitTest, AFailureInOneChildIsNamedThereAndTouchesNeitherTheOtherNorTheParent) {
  Leases children = Halves();
  children[3]->Abort(absl::DataLossError("label 17 out of range"));
  EXPECT_THAT(Message(Try(*children[1])), HasSubstr("rank 3 left: \"label 17 out of range\""));
  job_.OnEachRank([&](int rank) {
    if (rank % 2 == 0) {
      EXPECT_EQ(Sum(*children[rank], 1), 2);
    }
    EXPECT_EQ(Sum(*parents_[rank], 1), kRanks);
  });
}

TEST_F(GroupSplitTest, ALostRankFailsTheParentAndItsOwnChildOnly) {
  Leases children = Halves();
  job_.server().DeclareLost(3, "killed by signal 9");
  EXPECT_THAT(Message(Try(*children[1])), HasSubstr("killed by signal 9"));
  for (const int rank : {0, 1, 2}) {
    EXPECT_THAT(Message(Try(*parents_[rank])), HasSubstr("rank 3 (host"));
  }
  job_.OnEachRank([&](int rank) {
    if (rank % 2 == 0) {
      EXPECT_EQ(Sum(*children[rank], 1), 2);
    }
  });
}

TEST_F(GroupSplitTest, AChildLivesOnAfterItsParentFailed) {
  Leases children = Halves();
  parents_[1]->Abort(absl::InternalError("boom"));
  // All know it before they ask for the name again: who does not gets the old group.
  for (const int rank : {0, 2, 3}) {
    EXPECT_THAT(Message(Try(*parents_[rank])), HasSubstr("boom"));
  }
  job_.OnEachRank([&](int rank) { EXPECT_EQ(Sum(*children[rank], 1), 2); });
  // The name's next group gives its children other names than those that live.
  job_.OnEachRank([&](int rank) { parents_[rank] = job_.pool(rank).Acquire(TestJob::Spec()); });
  Leases more = Halves();
  EXPECT_EQ((*more[0])->name(), "train:split2.color0");
}

TEST_F(GroupSplitTest, ARankThatNeverSplitsIsNamedAndTheGroupGoesOn) {
  for (auto& parent : parents_) parent->Release();
  GroupSpec impatient = TestJob::Spec();
  impatient.setup_timeout = absl::Milliseconds(200);
  parents_ = job_.AcquireAll(impatient);
  std::vector<absl::Status> results(kRanks);
  job_.OnEachRank([&](int rank) {
    if (rank != 2) results[rank] = (*parents_[rank])->Split(0, 0).status();
  });
  for (const int rank : {0, 1, 3}) {
    EXPECT_EQ(results[rank].code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(Message(results[rank]),
                HasSubstr("split of train/1: rank 2 of 4 did not call Split in time "
                          "(setup_timeout, 200ms on rank "));
  }
  job_.OnEachRank([&](int rank) { EXPECT_EQ(Sum(*parents_[rank], 1), kRanks); });
}

// Starts a split on rank 0 alone.
std::thread SplitOnRankZero(GroupLease& parent, absl::StatusOr<GroupLease>* result) {
  return std::thread([&parent, result] { *result = parent->Split(0, 0); });
}

TEST_F(GroupSplitTest, ASplitEndsAtOnceWithTheCauseOfItsGroup) {
  absl::StatusOr<GroupLease> child;
  std::thread rank0 = SplitOnRankZero(*parents_[0], &child);
  parents_[3]->Abort(absl::InternalError("boom"));
  rank0.join();
  const absl::Status& result = child.status();
  EXPECT_EQ(result.code(), absl::StatusCode::kInternal) << result;
  EXPECT_THAT(Message(result), HasSubstr("split of train/1: rank 3 left: \"boom\""));
}

TEST_F(GroupSplitTest, ASplitEndsAtOnceWhenAPeerClosesTheGroup) {
  absl::StatusOr<GroupLease> child;
  std::thread rank0 = SplitOnRankZero(*parents_[0], &child);
  EXPECT_TRUE(parents_[3]->Close().ok());
  rank0.join();
  const absl::Status& result = child.status();
  EXPECT_EQ(result.code(), absl::StatusCode::kFailedPrecondition) << result;
  EXPECT_THAT(Message(result), HasSubstr("rank 3 closed after #0"));
}

TEST_F(GroupSplitTest, AChildThatCannotBeMadeFailsOnItsRanksWithOneCauseAndNoOthers) {
  job_.world().rules[1].connect_error = absl::InternalError("no route to rank 0");
  Leases children =
      SplitAll(parents_, [](int rank) { return rank < 2 ? 0 : rank; }, [](int) { return 0; });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(children[rank].status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(Message(children[rank].status()),
                HasSubstr("rank 1 could not connect 'train:split1.color0/1': no route to rank 0"));
  }
  for (const int rank : {2, 3}) EXPECT_TRUE(children[rank].ok()) << children[rank].status();
  job_.OnEachRank([&](int rank) { EXPECT_EQ(Sum(*parents_[rank], 1), kRanks); });
}

// One thread a rank, of which the others know that it will come to nothing else.
TEST(GroupSplitCycleTest, RanksThatSplitAndAcquireInDifferentOrdersAreToldTheCycle) {
  TestJob job(2);
  std::vector<absl::Status> results(2);
  const absl::Time began = MonotonicNow();
  job.OnEachRank([&](int rank) {
    GroupSpec spec = TestJob::Spec();
    spec.setup_timeout = absl::Hours(1);
    absl::StatusOr<GroupLease> lease = job.pool(rank).Acquire(spec);
    ASSERT_TRUE(lease.ok()) << lease.status();
    spec.name = "other";
    results[rank] =
        rank == 0 ? job.pool(rank).Acquire(spec).status() : (*lease)->Split(0, 0).status();
    EXPECT_TRUE((*lease)->status().ok()) << "the group that was to be split goes on";
  });
  EXPECT_LT(MonotonicNow() - began, absl::Seconds(5) * TimeoutScale());
  for (const absl::Status& result : results) {
    EXPECT_EQ(result.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(result), HasSubstr("rank 0 in 'other' for rank 1, rank 1 in a split of "
                                           "'train/1' for rank 0; make the same groups"));
  }
}

TEST_F(GroupSplitTest, MisuseIsRefusedAtOnce) {
  GroupLease empty;
  EXPECT_THAT(Message(empty->Split(0, 0).status()), HasSubstr("this lease is empty"));
  parents_[0]->Abort(absl::InternalError("boom"));
  EXPECT_THAT(Message((*parents_[0])->Split(0, 0).status()),
              HasSubstr("split of train/1: rank 0 left: \"boom\""));
}

TEST_F(GroupSplitTest, TwoThreadsOfARankDoNotSplitAGroupAtOnce) {
  absl::StatusOr<GroupLease> first;  // kept: a child ends with its first lease that does
  absl::StatusOr<GroupLease> second;
  std::thread rank0 = SplitOnRankZero(*parents_[0], &first);
  std::thread again = SplitOnRankZero(*parents_[0], &second);
  Leases others(kRanks);
  job_.OnEachRank([&](int rank) {
    if (rank == 0) return;
    others[rank] = (*parents_[rank])->Split(0, 0);
    EXPECT_TRUE(others[rank].ok()) << others[rank].status();
  });
  // One of the two is refused, unless it came only when the other had ended: then it waits for
  // ranks that split once.
  parents_[1]->Abort(absl::InternalError("enough"));
  rank0.join();
  again.join();
  EXPECT_TRUE(first.ok() != second.ok()) << first.status() << "; " << second.status();
  const std::string refused = Message(first.ok() ? second.status() : first.status());
  EXPECT_TRUE(absl::StrContains(refused, "while another thread is in one") ||
              absl::StrContains(refused, "enough"))
      << refused;
}

// --- closing

TEST_F(GroupSplitTest, AParentWithLivingChildrenIsNotClosedAndTheyAreNamed) {
  Leases children = Halves();
  const absl::Status refused = parents_[0]->Close();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refused), HasSubstr("Close of train/1: its child 'train:split1.color0/1' "
                                          "(group_split_test.cc:"));
  EXPECT_THAT(Message(refused), HasSubstr("is alive; close it first, or use CloseWithChildren"));
  EXPECT_TRUE((*parents_[0])->status().ok()) << "nothing has happened";
  EXPECT_TRUE(children[0]->Close().ok());
  EXPECT_TRUE(parents_[0]->Close().ok()) << "its child has ended";
  EXPECT_TRUE((*children[1])->status().ok()) << "the children of others live on";
}

TEST_F(GroupSplitTest, CloseWithChildrenClosesThemFirst) {
  Leases halves = Halves();
  Leases singles = SplitAll(halves, [](int rank) { return rank; }, [](int) { return 0; });
  job_.OnEachRank([&](int rank) {
    const absl::Status closed = parents_[rank]->CloseWithChildren();
    EXPECT_TRUE(closed.ok()) << closed;
    EXPECT_TRUE(job_.pool(rank).LiveGroups().empty());
    EXPECT_EQ(Try(*halves[rank]).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(Try(*singles[rank]).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(parents_[rank]->CloseWithChildren().ok()) << "any number of times";
  });
}

TEST_F(GroupSplitTest, WhatWasSplitFromAChildThatEndedIsItsParentsChild) {
  Leases halves = Halves();
  Leases singles = SplitAll(halves, [](int rank) { return rank; }, [](int) { return 0; });
  EXPECT_THAT(Message(halves[0]->Close()), HasSubstr("its child 'train:split1.color0:split1"));
  halves[2]->CloseWithChildren().IgnoreError();
  EXPECT_TRUE(halves[0]->CloseWithChildren().ok()) << "rank 2 has closed it, and not its children";
  EXPECT_TRUE((*singles[1])->status().ok());
  EXPECT_TRUE(halves[3]->CloseWithChildren().ok());
  EXPECT_TRUE((*singles[1])->status().ok()) << "a peer's end of the half is not its end";
  EXPECT_THAT(Message(parents_[1]->Close()), HasSubstr("color1:split1.color1/1' (group_split"));
  EXPECT_TRUE(parents_[1]->CloseWithChildren().ok());
  EXPECT_FALSE((*singles[1])->status().ok());
}

TEST_F(GroupSplitTest, CloseWithChildrenIsStillOnlyForTheLastHolder) {
  Leases children = Halves();
  absl::StatusOr<GroupLease> another = job_.pool(0).Acquire(TestJob::Spec());
  EXPECT_THAT(Message(parents_[0]->CloseWithChildren()), HasSubstr("it is held by "));
  EXPECT_TRUE((*children[0])->status().ok()) << "nothing was closed";
}

TEST_F(GroupSplitTest, AChildKeepsTheNameOfItsParentFromBeingGivenAway) {
  for (auto& parent : parents_) parent->Release();
  GroupSpec spec = TestJob::Spec();
  spec.close_timeout = absl::Seconds(2) * TimeoutScale();  // half of it is for the holders
  parents_ = job_.AcquireAll(spec);
  Leases children = Halves();
  for (auto& parent : parents_) parent->Release();
  const absl::Status refused = job_.pool(0).Acquire(TestJob::Spec("other")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refused), HasSubstr("its child 'train:split1.color0'"));
  job_.OnEachRank([&](int rank) { EXPECT_EQ(Sum(*children[rank], 1), 2); });
}

TEST_F(GroupSplitTest, APoolEndsWithItsChildrenWhateverTheOrderOfTheLeases) {
  Leases children = Halves();
  job_.OnEachRank([&](int rank) {
    if (rank % 2 == 0) {
      parents_[rank]->Release();
      children[rank]->Release();
    } else {
      children[rank]->Release();
      parents_[rank]->Release();
    }
    const absl::Status closed = job_.pool(rank).Close(absl::Seconds(5) * TimeoutScale());
    EXPECT_TRUE(closed.ok()) << closed;
  });
}

class IdleGroupSplitTest : public GroupSplitTest {
 protected:
  IdleGroupSplitTest() : GroupSplitTest(CloseIdle()) {}
  static PoolOptions CloseIdle() {
    PoolOptions options;
    options.close_idle_groups = true;
    return options;
  }
};

TEST_F(IdleGroupSplitTest, AParentThatClosesWhenIdleDoesSoWithItsLastChild) {
  Leases children = SplitAll(parents_, [](int) { return 0; }, [](int) { return 0; });
  for (auto& parent : parents_) parent->Release();
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE((*children[rank])->status().ok());
  children[0]->Release();
  const absl::Time deadline = MonotonicNow() + absl::Seconds(10) * TimeoutScale();
  while (!job_.pool(1).LiveGroups().empty() && MonotonicNow() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(job_.pool(1).LiveGroups().empty());
}

TEST_F(GroupSplitTest, ManyChildrenEndInAnotherOrderOnEachRank) {
  constexpr int kSplits = 20;
  std::vector<std::vector<GroupLease>> children(kRanks);
  job_.OnEachRank([&](int rank) {
    for (int i = 0; i < kSplits; ++i) {
      auto child = (*parents_[rank])->Split((rank + i) % 3, -rank);
      ASSERT_TRUE(child.ok()) << child.status();
      children[rank].push_back(*std::move(child));
    }
    SplitMix64 random(static_cast<uint64_t>(rank));
    for (size_t i = children[rank].size(); i > 1; --i) {
      std::swap(children[rank][i - 1], children[rank][random.Below(i)]);
    }
  });
  job_.OnEachRank([&](int rank) {
    for (GroupLease& child : children[rank]) {
      const absl::Status closed = child.Close();
      EXPECT_TRUE(closed.ok()) << closed;
    }
    EXPECT_EQ(job_.pool(rank).LiveGroups().size(), 1u);
  });
}

}  // namespace
}  // namespace muster

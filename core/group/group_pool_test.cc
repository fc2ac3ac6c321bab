// Who gets which group: creation, reuse, refusal, and what a failed set-up leaves. Who may take the
// name of another: group_replacement_test.
#include "muster/core/group/group_pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group/test_job.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> KeysIn(const MemoryStoreServer& server) {
  std::vector<std::string> keys;
  for (Entry& entry : server.Entries("")) keys.push_back(std::move(entry.key));
  return keys;
}

float Sum(GroupLease& lease, float value) {
  EXPECT_TRUE(lease->AllReduce(Buffer::Of(value), ReduceOp::kSum).ok());
  return value;
}

TEST(GroupPoolTest, EveryRankGetsTheSameReadyGroup) {
  TestJob job(3);
  std::vector<absl::StatusOr<GroupLease>> leases = job.AcquireAll(TestJob::Spec());
  job.OnEachRank([&](int rank) {
    ASSERT_TRUE(leases[rank].ok()) << leases[rank].status();
    GroupLease& lease = *leases[rank];
    EXPECT_EQ(lease->id(), "train/1");
    EXPECT_EQ(lease->rank(), rank);
    EXPECT_EQ(lease->size(), 3);
    EXPECT_EQ(lease->backend(), "fake");
    EXPECT_EQ(lease->state(), GroupState::kReady);
    EXPECT_EQ(Sum(lease, rank + 1), 6);
  });
}

TEST(GroupPoolTest, AWorldOfOneNeedsNobody) {
  TestJob job(1);
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(Sum(*lease, 7), 7);
  EXPECT_TRUE(lease->Close().ok());
}

TEST(GroupPoolTest, AnEqualSpecReusesTheLiveGroupWithoutCommunication) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec());
  ASSERT_TRUE(leases[0].ok()) << leases[0].status();
  // Rank 1 does not take part, so anything that needed it would hang.
  GroupSpec same = TestJob::Spec();
  same.operation_timeout = absl::Minutes(3);  // not identity
  absl::StatusOr<GroupLease> again = job.pool(0).Acquire(same);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->id(), "train/1");
  EXPECT_EQ(job.pool(0).statistics().groups_created, 1);
  EXPECT_EQ(job.pool(0).statistics().groups_reused, 1);
  EXPECT_EQ(job.pool(0).LiveGroups().at(0).holders, 2);
}

TEST(GroupPoolTest, AReleasedGroupIsReusedByTheNextAcquire) {
  TestJob job(2);
  for (int i = 0; i < 3; ++i) {
    auto leases = job.AcquireAll(TestJob::Spec());
    ASSERT_TRUE(leases[0].ok()) << leases[0].status();
    EXPECT_EQ((*leases[0])->generation(), 1);
  }
  EXPECT_EQ(job.pool(0).statistics().groups_reused, 2);
}

TEST(GroupPoolTest, RanksThatAskForDifferentGroupsAllLearnWhoAskedForWhat) {
  TestJob job(3);
  std::vector<absl::Status> results(3);
  job.OnEachRank([&](int rank) {
    results[rank] = job.pool(rank).Acquire(TestJob::Spec(rank == 2 ? "other" : "fake")).status();
  });
  for (const absl::Status& status : results) {
    EXPECT_EQ(status, results[0]);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("backend is 'fake' on ranks 0, 1 and 'other' on rank 2"));
  }
  auto leases = job.AcquireAll(TestJob::Spec());
  EXPECT_TRUE(leases[0].ok()) << "a new attempt works at once: " << leases[0].status();
}

TEST(GroupPoolTest, ABackendThatNoRankHasFailsEveryRankWithTheListAndNoRanksNumber) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec("nccl"));
  for (auto& lease : leases) {
    EXPECT_EQ(lease.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(lease.status().message()), HasSubstr("which has fake, other: "));
    EXPECT_THAT(std::string(lease.status().message()), Not(HasSubstr("rank 0")));
  }
}

TEST(GroupPoolTest, AutoTakesABackendThatEveryRankOffers) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec("auto"));
  ASSERT_TRUE(leases[0].ok()) << leases[0].status();
  EXPECT_EQ((*leases[0])->backend(), "fake");
}

TEST(GroupPoolTest, AnInvalidSpecIsRefusedBeforeAnythingHappens) {
  TestJob job(1);
  GroupSpec spec = TestJob::Spec();
  spec.name = "a b";
  EXPECT_THAT(std::string(job.pool(0).Acquire(spec).status().message()),
              HasSubstr("GroupSpec.name is \"a b\""));
  spec = TestJob::Spec();
  spec.close_timeout = absl::ZeroDuration();
  EXPECT_THAT(std::string(job.pool(0).Acquire(spec).status().message()),
              HasSubstr("GroupSpec.close_timeout is 0"));
}

TEST(GroupPoolTest, WhoSaysWhichWorldItIsGetsTheFaultsOfTheEnvironmentToo) {
  setenv("MUSTER_FAULTS", "nowhere=fail", 1);
  const absl::Status created = GroupPool::Create(World()).status();
  const absl::Status found = GroupPool::FromEnvironment().status();
  unsetenv("MUSTER_FAULTS");
  EXPECT_EQ(created.code(), absl::StatusCode::kInvalidArgument) << created;
  EXPECT_THAT(std::string(created.message()), HasSubstr("MUSTER_FAULTS: faults \"nowhere=fail\""));
  EXPECT_EQ(found, created);
}

TEST(GroupPoolTest, InvalidOptionsAreRefusedAndNamed) {
  const auto refusal = [](void (*change)(PoolOptions&)) {
    PoolOptions options;
    change(options);
    MemoryStoreServer server({1});
    const absl::Status status = CreateInProcessPool(0, 1, server, options).status();
    EXPECT_EQ(GroupPool::Create(World(), options).status(), status);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(refusal([](PoolOptions& o) { o.heartbeat_timeout = absl::ZeroDuration(); }),
            "PoolOptions.heartbeat_timeout is 0: it must be 10ms or more (infinite is fine)");
  EXPECT_THAT(refusal([](PoolOptions& o) { o.heartbeat_timeout = absl::Nanoseconds(1); }),
              HasSubstr("heartbeat_timeout is 1ns"));
  EXPECT_EQ(refusal([](PoolOptions& o) { o.connect_timeout = -absl::Seconds(1); }),
            "PoolOptions.connect_timeout is -1s: it must be more than zero (infinite is fine)");
  EXPECT_THAT(refusal([](PoolOptions& o) { o.close_timeout = absl::ZeroDuration(); }),
              HasSubstr("close_timeout is 0"));
}

TEST(GroupPoolTest, ARankThatNeverComesIsNamedWhenTheSetUpTimesOut) {
  TestJob job(3);
  GroupSpec spec = TestJob::Spec();
  spec.setup_timeout = absl::Seconds(1) * TimeoutScale();  // rank 1 must come in time
  std::vector<absl::Status> results(2);
  std::thread rank1([&] { results[1] = job.pool(1).Acquire(spec).status(); });
  results[0] = job.pool(0).Acquire(spec).status();
  rank1.join();
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 2 of 3 did not call Acquire for it in time"));
  }
  EXPECT_THAT(job.pool(0).LiveGroups(), IsEmpty());
}

TEST(GroupPoolTest, AConnectThatFailsOnOneRankIsUndoneOnAllAndTheNextAttemptWorks) {
  TestJob job(3);
  job.world().rules[1].connect_error = absl::ResourceExhaustedError("no port");
  auto failed = job.AcquireAll(TestJob::Spec());
  for (auto& lease : failed) {
    EXPECT_EQ(lease.status(), failed[0].status());
    EXPECT_THAT(std::string(lease.status().message()),
                HasSubstr("rank 1 could not connect 'train/1': no port"));
  }
  EXPECT_EQ(job.world().live(), 0);
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
  job.world().rules.clear();
  auto leases = job.AcquireAll(TestJob::Spec());
  for (auto& lease : leases) {
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ((*lease)->id(), "train/2");
  }
}

TEST(GroupPoolTest, AConnectThatThrowsIsAFailureLikeAnother) {
  TestJob job(2);
  job.world().rules[1].connect_throws = true;
  for (auto& lease : job.AcquireAll(TestJob::Spec())) {
    EXPECT_EQ(lease.status().code(), absl::StatusCode::kInternal) << lease.status();
    EXPECT_THAT(
        std::string(lease.status().message()),
        HasSubstr("rank 1 could not connect 'train/1': the backend \"fake\" let an exception "
                  "out: no such device"));
  }
}

TEST(GroupPoolTest, AConnectThatNeverReturnsIsCancelledWhenAnotherRankFails) {
  TestJob job(2);
  job.world().rules[0].connect_blocks = true;
  job.world().rules[1].connect_error = absl::InternalError("broken");
  auto failed = job.AcquireAll(TestJob::Spec());
  for (auto& lease : failed) {
    EXPECT_THAT(std::string(lease.status().message()), HasSubstr("rank 1 could not connect"));
  }
}

TEST(GroupPoolTest, ARankLostDuringTheSetUpIsTheCauseOnTheOthers) {
  TestJob job(2);
  job.world().rules[0].connect_blocks = true;
  absl::Status result;
  std::thread rank0([&] { result = job.pool(0).Acquire(TestJob::Spec()).status(); });
  std::thread rank1([&] { job.pool(1).Acquire(TestJob::Spec()).status().IgnoreError(); });
  while (job.pool(0).LiveGroups().empty() || job.pool(0).LiveGroups()[0].generation == 0) {
    std::this_thread::yield();
  }
  job.server().DeclareLost(1, "killed by signal 9");
  rank0.join();
  rank1.join();
  EXPECT_EQ(result.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.message()), HasSubstr("rank 1 (host "));
  EXPECT_THAT(std::string(result.message()), HasSubstr("was lost: killed by signal 9"));
}

TEST(GroupPoolTest, ABackendThatIsSlowToAnswerWhetherItWorksHoldsUpNobodyElse) {
  TestJob job(1);
  job.world().check_hangs = true;
  std::thread acquirer([&] { EXPECT_TRUE(job.pool(0).Acquire(TestJob::Spec()).ok()); });
  job.world().WaitForHang();
  absl::Notification answered;
  std::thread other([&] {
    EXPECT_THAT(job.pool(0).LiveGroups(), IsEmpty());
    answered.Notify();
  });
  EXPECT_TRUE(answered.WaitForNotificationWithTimeout(absl::Seconds(10) * TimeoutScale()));
  job.world().Unblock();
  acquirer.join();
  other.join();
}

TEST(GroupPoolTest, TheLastLeaseClosesTheGroupWhenThePoolIsToldSo) {
  PoolOptions options;
  options.close_idle_groups = true;
  TestJob job(2, options);
  auto leases = job.AcquireAll(TestJob::Spec());
  ASSERT_TRUE(leases[0].ok()) << leases[0].status();
  job.OnEachRank([&](int rank) { leases[rank]->Release(); });
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
  EXPECT_EQ(job.world().live(), 0);
  EXPECT_EQ(job.pool(0).statistics().groups_destroyed, 1);
}

TEST(GroupPoolTest, ClosingThePoolIsRefusedWhileALeaseIsOutAndThenDestroysEverything) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec());
  absl::Status held = job.pool(0).Close(absl::Seconds(5));
  EXPECT_EQ(held.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(held.message()), HasSubstr("'train/1' (test_job.h:"));
  EXPECT_EQ((*leases[0])->state(), GroupState::kReady);
  leases.clear();
  job.OnEachRank(
      [&](int rank) { EXPECT_TRUE(job.pool(rank).Close(TestJob::Spec().close_timeout).ok()); });
  EXPECT_EQ(job.world().live(), 0);
  EXPECT_THAT(std::string(job.pool(0).Acquire(TestJob::Spec()).status().message()),
              HasSubstr("closed"));
  EXPECT_TRUE(job.pool(0).Close(absl::Seconds(5)).ok()) << "idempotent";
}

TEST(GroupPoolTest, APoolThatDiesWhileHeldAbortsAndTellsThePeers) {
  TestJob job(2);
  auto leases = job.AcquireAll(TestJob::Spec());
  ASSERT_TRUE(leases[0].ok()) << leases[0].status();
  job.DestroyPool(0);
  float value = 1;
  absl::Status here = (*leases[0])->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  absl::Status there = (*leases[1])->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  for (const absl::Status& status : {here, there}) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 0 destroyed its pool while it held 'train/1'"));
  }
  EXPECT_FALSE(leases[1]->Close().ok()) << "waits for the end of the abort";
  EXPECT_EQ(job.world().live(), 0);
}

TEST(GroupPoolTest, ABackendThatConnectsToNothingIsNamedOnEveryRank) {
  TestJob job(2);
  job.world().rules[1].connects_to_nothing = true;
  const std::vector<absl::StatusOr<GroupLease>> leases = job.AcquireAll(TestJob::Spec());
  for (const absl::StatusOr<GroupLease>& lease : leases) {
    EXPECT_TRUE(absl::IsInternal(lease.status())) << lease.status();
    EXPECT_THAT(
        std::string(lease.status().message()),
        HasSubstr("rank 1 could not connect 'train/1': the backend \"fake\" said that it has "
                  "connected, and gave no communicator"));
  }
}

TEST(GroupPoolTest, AForkedChildCannotUseItsParentsPool) {
  TestJob job(1);
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok());
  const pid_t child = fork();
  if (child == 0) {
    const auto is_refusal = [](const absl::Status& status) {
      return absl::IsFailedPrecondition(status) &&
             absl::StrContains(status.message(), "forked child");
    };
    float value = 1;
    const bool refused =
        is_refusal(job.pool(0).Acquire(TestJob::Spec()).status()) &&
        is_refusal((*lease)->AllReduce(Buffer::Of(value), ReduceOp::kSum)) &&
        is_refusal((*lease)->status()) &&
        is_refusal((*lease)->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum).Wait()) &&
        is_refusal(lease->Close()) && is_refusal(job.pool(0).Close(absl::Seconds(1)));
    lease->Abort(absl::CancelledError("not the child's"));
    job.pool(0).Abort(absl::CancelledError("not the child's"));
    lease->Release();
    job.DestroyPool(0);  // and does not hang in what is its parent's
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(Sum(*lease, 2), 2) << "the parent's group lives on";
}

TEST(GroupPoolTest, ManyGenerationsLeaveNothing) {
  TestJob job(2);
  ProcessHoldings before;
  std::vector<std::string> keys;
  for (int i = 1; i <= 50; ++i) {
    if (i == 2) {  // the first one leaves the record of its name
      before = ProcessHoldings::Now();
      keys = KeysIn(job.server());
    }
    auto leases = job.AcquireAll(TestJob::Spec());
    job.OnEachRank([&](int rank) {
      ASSERT_TRUE(leases[rank].ok()) << leases[rank].status();
      EXPECT_EQ((*leases[rank])->generation(), i);
      EXPECT_TRUE(leases[rank]->Close().ok());
    });
    ASSERT_EQ(job.world().live(), 0);
  }
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
  EXPECT_EQ(ProcessHoldings::Beyond(before, absl::Seconds(10) * TimeoutScale()).ToString(),
            "nothing");
  EXPECT_THAT(keys, Contains("group/train"));
  EXPECT_EQ(KeysIn(job.server()), keys);
}

TEST(GroupPoolTest, SeveralGroupsLiveSideBySide) {
  TestJob job(2);
  GroupSpec a = TestJob::Spec();
  a.name = "a";
  GroupSpec b = TestJob::Spec("other");
  b.name = "b";
  auto as = job.AcquireAll(a);
  auto bs = job.AcquireAll(b);
  job.OnEachRank([&](int rank) {
    ASSERT_TRUE(as[rank].ok() && bs[rank].ok());
    EXPECT_EQ(Sum(*as[rank], 1), 2);
    EXPECT_EQ(Sum(*bs[rank], 2), 4);
    // Closed in another order on each rank: closes are matched by group, not by time.
    std::thread other([&] { EXPECT_TRUE((rank == 0 ? bs : as)[rank]->Close().ok()); });
    EXPECT_TRUE((rank == 0 ? as : bs)[rank]->Close().ok());
    other.join();
  });
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

}  // namespace
}  // namespace muster

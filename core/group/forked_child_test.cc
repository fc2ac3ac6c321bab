// What a child of fork gets from its parent's pool, leases, groups and operations: answers, at
// once, whatever the parent's other threads were in the middle of.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "muster/core/group/test_job.h"
#include "muster/core/observe/live_groups.h"

namespace {
bool is_forked_child = false;
}  // namespace

// LeakSanitizer asks this at exit. The parent's other threads do not exist in a forked child: what
// only their stacks point to would pass for lost there.
// NOLINTNEXTLINE(bugprone-reserved-identifier): its name
extern "C" int __lsan_is_turned_off() { return is_forked_child ? 1 : 0; }

namespace muster {
namespace {

// How `body` ends in a forked child, which has a minute: "exit 0", "signal 14".
std::string InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    is_forked_child = true;
    alarm(60);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status))
                           : "signal " + std::to_string(WTERMSIG(status));
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) && absl::StrContains(status.message(), "forked child");
}

// Asks for everything that there is, and ends it. Gives the number of the first wrong answer.
int UseAll(GroupPool& pool, GroupLease& lease) {
  Group& group = *lease;
  float value = 1;
  Work work = group.AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);
  const PoolStatistics statistics = pool.statistics();
  const bool answers[] = {
      pool.LiveGroups().empty(),
      AllLiveGroups().empty(),
      statistics.groups_created == 0 && statistics.groups_reused == 0,
      IsRefusal(pool.Acquire(TestJob::Spec()).status()),
      IsRefusal(pool.Close(absl::Seconds(1))),
      pool.rank() == 0 && pool.world_size() == 1,
      lease.empty(),
      IsRefusal(lease.Close()) && IsRefusal(lease.Close(absl::Seconds(1))),
      IsRefusal(group.status()),
      group.state() == GroupState::kDestroyed,
      group.id().empty() && group.generation() == 0 && group.backend().empty(),
      group.capabilities() == Capabilities(),
      group.name() == "train" && group.rank() == 0 && group.size() == 1,
      IsRefusal(group.AllReduce(Buffer::Of(value), ReduceOp::kSum)),
      IsRefusal(group.Barrier()) && IsRefusal(group.Transfer({})),
      work.done() && IsRefusal(work.Wait()),
  };
  int number = 0;
  for (const bool right : answers) {
    ++number;
    if (!right) return number;
  }
  lease.Abort(absl::CancelledError("not the child's"));
  pool.Abort(absl::CancelledError("not the child's"));
  lease.Release();
  const GroupLease moved = std::move(lease);
  return IsRefusal(moved->Barrier()) ? 0 : 99;
}

TEST(ForkedChildTest, NothingThatItInheritsWaitsForALockOfItsParent) {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  GTEST_SKIP() << "gcc 12's AddressSanitizer forks while other threads hold its allocator's locks: "
                  "the child hangs in operator new";
#endif
  TestJob job(1);
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok()) << lease.status();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        (void)job.pool(0).LiveGroups();
        (void)job.pool(0).statistics();
        (void)AllLiveGroups();
        (void)lease->empty();
        (void)(*lease)->state();
        (void)(*lease)->id();
      }
    });
  }
  std::string ended = "exit 0";
  for (int i = 0; i < 50 && ended == "exit 0"; ++i) {
    ended = InChild([&] {
      const int wrong = UseAll(job.pool(0), *lease);
      if (wrong == 0) job.DestroyPool(0);
      return wrong;
    });
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, "exit 0");
  EXPECT_EQ((*lease)->state(), GroupState::kReady) << "the parent's group lives on";
}

TEST(ForkedChildTest, AnOperationInFlightIsOverThere) {
  TestJob job(1);
  job.world().rules[0].operation_blocks = true;
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok()) << lease.status();
  float value = 1;
  Work work = (*lease)->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);
  job.world().WaitForOperations(1);
  EXPECT_EQ(InChild([&] {
              const bool over = work.done() && IsRefusal(work.Wait());
              const Work gone = std::move(work);
              return over ? 0 : 1;
            }),
            "exit 0");
  EXPECT_FALSE(work.done());
  lease->Abort(absl::CancelledError("enough"));
  EXPECT_TRUE(absl::StrContains(work.Wait().message(), "enough"));
}

// The pool's and the lease's ends are in the child's exit.
TEST(ForkedChildTest, ExitEndsNothingOfTheParents) {
  TestJob job(1);
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(InChild([]() -> int { exit(7); }), "exit 7");
  EXPECT_EQ((*lease)->state(), GroupState::kReady);
}

TEST(ForkedChildTest, ALeaseOfTheParentMayBeAssignedTo) {
  TestJob job(1);
  absl::StatusOr<GroupLease> lease = job.pool(0).Acquire(TestJob::Spec());
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(InChild([&] {
              *lease = GroupLease();
              const absl::Status status = (*lease)->Barrier();
              return absl::StrContains(status.message(), "this lease is empty") ? 0 : 1;
            }),
            "exit 0");
  EXPECT_TRUE((*lease)->Barrier().ok());
}

}  // namespace
}  // namespace muster

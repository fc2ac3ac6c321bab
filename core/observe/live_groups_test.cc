#include "muster/core/observe/live_groups.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/observed_thread.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

class FakePool final : public LivePool {
 public:
  explicit FakePool(int fd = -1) : fd_(fd) {}
  std::vector<LiveGroup> LiveGroups() const override {
    LiveGroup group;
    group.name = "train";
    group.generation = 1;
    group.state = GroupState::kReady;
    group.holders = 1;
    group.created_at = "main.cc:7";
    return {group};
  }
  void AbortBecause(absl::string_view why) override {
    ++aborts_;
    why_ = std::string(why);
    if (fd_ >= 0 && write(fd_, "x", 1) != 1) abort();
  }
  absl::Duration AbortBound() const override { return absl::InfiniteDuration(); }
  int aborts() const { return aborts_; }
  const std::string& why() const { return why_; }

 private:
  const int fd_;
  int aborts_ = 0;
  std::string why_;
};

TEST(LiveGroupsTest, AGroupSaysWhatItIsAndWhereItWasMade) {
  EXPECT_EQ(FakePool().LiveGroups()[0].ToString(),
            "train/1, ready, 1 holder, created at main.cc:7");
}

TEST(LiveGroupsTest, ListsWhatIsAliveAndForgetsRemovedPools) {
  LivePools pools;
  FakePool pool;
  pools.Add(&pool);
  EXPECT_EQ(pools.All().size(), 1u);
  EXPECT_TRUE(pools.Remove(&pool));
  EXPECT_TRUE(pools.All().empty());
}

TEST(LiveGroupsTest, WhatWasLeftBehindIsListedAndKeepsItsDeviceUntilItIsGivenBack) {
  LivePools pools;
  LiveGroup group;
  group.name = "train";
  group.generation = 3;
  group.device = "cuda:1";
  group.residue = "nccl did not give back 1 device object";
  std::shared_ptr<const LiveGroup> residue = pools.LeaveBehind(group);
  ASSERT_EQ(pools.All().size(), 1u);
  EXPECT_EQ(pools.All()[0].residue, group.residue);
  EXPECT_TRUE(pools.CheckFree("cuda:0").ok());
  const absl::Status refused = pools.CheckFree("cuda:1");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find("group 'train/3' left residue there: nccl did not give back"),
            std::string::npos)
      << refused;
  residue.reset();
  EXPECT_TRUE(pools.All().empty());
  EXPECT_TRUE(pools.CheckFree("cuda:1").ok());
}

TEST(LiveGroupsTest, AForkedChildHasNotWhatIsStuckInItsParent) {
  LivePools pools;
  LiveGroup group;
  group.device = "cpu";
  const std::shared_ptr<const LiveGroup> residue = pools.LeaveBehind(group);
  const pid_t child = fork();
  if (child == 0) _exit(pools.CheckFree("cpu").ok() && pools.All().empty() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(LiveGroupsTest, AbortAllAbortsEachPoolOnce) {
  LivePools pools;
  FakePool a, b;
  pools.Add(&a);
  pools.Add(&b);
  pools.AbortAll();
  pools.AbortAll();
  EXPECT_EQ(a.aborts(), 1);
  EXPECT_EQ(b.aborts(), 1);
  EXPECT_EQ(b.why(), "exited while its groups were alive");
}

TEST(LiveGroupsTest, WhoeverAbortsAllSaysWhy) {
  LivePools pools;
  FakePool pool;
  pools.Add(&pool);
  pools.AbortAll("left a group open");
  EXPECT_EQ(pool.why(), "left a group open");
}

// An abort that needs the test's word to end, and says on which thread it would be waited for.
class SlowPool final : public LivePool {
 public:
  std::vector<LiveGroup> LiveGroups() const override { return {}; }
  void BeginAbort(absl::string_view why) override { told = std::string(why); }
  void AbortBecause(absl::string_view) override {
    begun.Notify();
    go.WaitForNotification();
    ended = true;
  }
  absl::Duration AbortBound() const override { return bound; }
  bool RunsHere() const override { return std::this_thread::get_id() == needed.load(); }

  absl::Notification begun, go;
  std::string told;
  absl::Duration bound = absl::InfiniteDuration();
  std::atomic<bool> ended{false};
  std::atomic<std::thread::id> needed{std::thread::id()};
};

TEST(LiveGroupsTest, AllPoolsBeginToAbortBeforeOneIsWaitedFor) {
  LivePools pools;
  SlowPool slow, other;
  pools.Add(&slow);
  pools.Add(&other);
  std::thread aborting([&] { pools.AbortAll("was told to stop"); });
  slow.begun.WaitForNotification();
  EXPECT_EQ(other.told, "was told to stop");
  slow.go.Notify();
  other.go.Notify();
  aborting.join();
}

TEST(LiveGroupsTest, APoolWithoutAGroupSaysThatItWasOpen) {
  LivePools pools;
  SlowPool pool;
  pools.Add(&pool);
  pool.go.Notify();
  pools.AbortAll();
  EXPECT_EQ(pool.told, "exited while its pool was open");
}

TEST(LiveGroupsTest, AnAbortThatIsStuckIsWaitedForNoLongerThanItsBound) {
  LivePools pools;
  SlowPool pool;
  pool.bound = absl::Milliseconds(50);
  pools.Add(&pool);
  std::thread stuck([&] { pools.AbortAll(); });
  pool.begun.WaitForNotification();
  pools.AbortAll();
  EXPECT_FALSE(pools.Remove(&pool)) << "its memory is still used";
  EXPECT_FALSE(pool.ended);
  pool.go.Notify();
  stuck.join();
}

// The hook at exit, while a signal's shutdown is under way.
TEST(LiveGroupsTest, WhoeverFindsAnAbortUnderWayWaitsForIt) {
  LivePools pools;
  SlowPool pool;
  pools.Add(&pool);
  std::thread first([&] { pools.AbortAll("was told to stop"); });
  pool.begun.WaitForNotification();
  ObservedThread second([&] {
    pools.AbortAll();
    EXPECT_TRUE(pool.ended);
  });
  EXPECT_TRUE(second.AwaitAsleep(MonotonicNow() + TimeoutScale() * absl::Seconds(20)));
  pool.go.Notify();
  second.join();
  first.join();
}

TEST(LiveGroupsTest, AThreadThatAnAbortWaitsForDoesNotWaitForThat) {
  LivePools pools;
  SlowPool pool;
  pools.Add(&pool);
  std::thread first([&] { pools.AbortAll("was told to stop"); });
  pool.begun.WaitForNotification();
  EXPECT_FALSE(pools.AbortNeedsThisThread());
  std::thread needed([&] {
    pool.needed = std::this_thread::get_id();
    EXPECT_TRUE(pools.AbortNeedsThisThread());
    pools.AbortAll();
    EXPECT_FALSE(pool.ended);
    pool.go.Notify();
  });
  needed.join();
  first.join();
}

// Runs `body` in a child that ends by exit(); gives how often a pool was aborted there.
template <class Body>
int AbortsAtExit(Body body) {
  int fds[2];
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(fds[0]);
    body(fds[1]);
    exit(0);
  }
  close(fds[1]);
  int aborts = 0;
  char byte;
  while (read(fds[0], &byte, 1) == 1) ++aborts;
  close(fds[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return aborts;
}

TEST(LiveGroupsTest, ExitAbortsWhatIsAlive) {
  EXPECT_EQ(AbortsAtExit([](int fd) {
              static auto* const pool = new FakePool(fd);  // there until the process is gone
              LivePools::Global().Add(pool);
            }),
            1);
}

TEST(LiveGroupsTest, AForkedChildsExitLeavesItsParentsPoolsAlone) {
  EXPECT_EQ(AbortsAtExit([](int fd) {
              static auto* const pool = new FakePool(fd);
              LivePools::Global().Add(pool);
              const pid_t grandchild = fork();
              if (grandchild == 0) exit(0);
              int status = 0;
              if (waitpid(grandchild, &status, 0) != grandchild || status != 0) abort();
            }),
            1)
      << "the parent's own exit, and not the child's";
}

// Its question does not return: whoever asks holds the list's lock.
class StuckPool final : public LivePool {
 public:
  std::vector<LiveGroup> LiveGroups() const override {
    asked.Notify();
    go.WaitForNotification();
    return {};
  }
  void AbortBecause(absl::string_view) override {}
  absl::Duration AbortBound() const override { return absl::InfiniteDuration(); }

  mutable absl::Notification asked;
  absl::Notification go;
};

TEST(LiveGroupsTest, AForkedChildHasAListOfItsOwnWhoeverHoldsItsParents) {
  StuckPool pool;
  LivePools::Global().Add(&pool);
  std::thread asker([] { EXPECT_TRUE(AllLiveGroups().empty()); });
  pool.asked.WaitForNotification();
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    const bool empty = AllLiveGroups().empty() && LivePools::Global().CheckFree("cpu").ok();
    LivePools::Global().AbortAll();
    const bool removed = LivePools::Global().Remove(&pool);
    FakePool own;
    LivePools::Global().Add(&own);
    const bool listed = AllLiveGroups().size() == 1;
    LivePools::Global().AbortAll();
    _exit(empty && removed && listed && own.aborts() == 1 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  pool.go.Notify();
  asker.join();
  EXPECT_TRUE(LivePools::Global().Remove(&pool));
}

}  // namespace
}  // namespace muster

// Tests that pass, fail, crash, hang and leak on purpose, each chosen by --gtest_filter in
// multi_rank_main_test.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/platform/environment.h"
#include "muster/testing/multi_rank_test.h"

namespace muster {
namespace {

std::string Variable(const char* name) { return Environment::OfProcess().Get(name).value_or(""); }

bool OnRank(const char* rank) { return Variable("MUSTER_RANK") == rank; }

[[noreturn]] void WaitForEver() {
  while (true) pause();
}

TEST(GoodTest, Passes) {
  std::cout << "rank " << Variable("MUSTER_RANK") << " was here" << std::endl;
}
TEST(GoodTest, PassesToo) {}
TEST(GoodTest, IsSkipped) { GTEST_SKIP() << "not today"; }

TEST(GoodTest, SeesItsCell) {
  EXPECT_EQ(Variable("MUSTER_TEST_BACKEND"), "reference");
  EXPECT_EQ(Variable("MUSTER_WORLD_SIZE"), "2");
  // Only the launcher owns these.
  for (const char* name : {"XML_OUTPUT_FILE", "TEST_PREMATURE_EXIT_FILE", "TEST_SHARD_STATUS_FILE",
                           "GTEST_SHARD_STATUS_FILE"}) {
    EXPECT_EQ(getenv(name), nullptr) << name;
  }
}

TEST(BadTest, FailsOnRankOne) {
  if (OnRank("1")) ADD_FAILURE() << "label 17 out of range [0, 10)";
}

TEST(BadTest, CrashesOnRankOne) {
  std::cout << "last words" << std::endl;
  if (OnRank("1")) raise(SIGKILL);
  WaitForEver();
}

TEST(BadTest, ExitsOnRankOne) {
  if (OnRank("1")) exit(3);
  WaitForEver();
}

TEST(BadTest, PretendsToBeDoneOnRankOne) {
  if (OnRank("1")) exit(0);
  WaitForEver();
}

TEST(BadTest, HangsOnRankOne) {
  if (OnRank("1")) WaitForEver();
}

TEST(BadTest, LeavesADaemonOnRankOne) {
  if (!OnRank("1")) return;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      (void)!write(ready[1], "x", 1);
      WaitForEver();
    }
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  wait(nullptr);
}

class FakePool final : public LivePool {
 public:
  std::vector<LiveGroup> LiveGroups() const override {
    if (aborted_) return {};
    LiveGroup group;
    group.name = "train";
    group.generation = 1;
    group.state = GroupState::kReady;
    group.created_at = "broken_ranks.cc:1";
    return {group};
  }
  void AbortBecause(absl::string_view) override { aborted_ = true; }
  absl::Duration AbortBound() const override { return absl::InfiniteDuration(); }

 private:
  bool aborted_ = false;
};

TEST(BadTest, LeaksAGroupOnRankOne) {
  if (OnRank("1")) LivePools::Global().Add(new FakePool());
}

// After the one above: starts clean.
TEST(BadTest, RunsAfterALeak) { EXPECT_TRUE(AllLiveGroups().empty()); }

class LeakyEnvironment final : public ::testing::Environment {
 public:
  void TearDown() override {
    if (!Variable("BROKEN_LEAK_AT_END").empty()) LivePools::Global().Add(new FakePool());
  }
};
const auto* const kLeaky = ::testing::AddGlobalTestEnvironment(new LeakyEnvironment());

// With real groups.
class BadGroupTest : public testing::MultiRankTest {};

TEST_F(BadGroupTest, AFailsOnRankOneWhileTheOthersWait) {
  Barrier();
  if (OnRank("1")) {
    ADD_FAILURE() << "label 17 out of range [0, 10)";
    return;
  }
  ASSERT_OK(group().Barrier());
}

TEST_F(BadGroupTest, BCrashesOnRankOneWhileTheOthersWait) {
  Barrier();
  if (OnRank("1")) raise(SIGKILL);
  ASSERT_OK(group().Barrier());
}

TEST_F(BadGroupTest, CStopsOnRankOneWhileTheOthersWait) {
  Barrier();
  if (OnRank("1")) raise(SIGSTOP);
  ASSERT_OK(group().Barrier());
}

TEST_F(BadGroupTest, DLeaksAGroupOnRankOne) {
  if (!OnRank("1")) {
    Barrier();
    // Still in it, and not closing it, when rank 1's test is over: says what it is told.
    std::cout << "told: " << group().Barrier().message() << std::endl;
    return;
  }
  static auto* const pool =
      new std::unique_ptr<GroupPool>(*GroupPool::FromEnvironment(pool_options()));
  static auto* const kept = new GroupLease(*(*pool)->Acquire(spec()));
  ASSERT_OK((*kept)->Barrier());
}

TEST_F(BadGroupTest, EPassesAfterwards) { Barrier(); }

TEST_F(BadGroupTest, FLeavesOnRankOneAndLingers) {
  Barrier();
  if (OnRank("1")) {
    lease().Abort(absl::InternalError("label 17 out of range"));
    WaitForEver();
  }
  if (!group().Barrier().ok()) exit(4);
}

class HangTest : public BadGroupTest {
 protected:
  GroupSpec spec() const override {
    GroupSpec spec = BadGroupTest::spec();
    spec.operation_timeout = Scaled(absl::Milliseconds(500));
    return spec;
  }
};

TEST_F(HangTest, AHangsOnRankOne) {
  Barrier();
  if (OnRank("1")) WaitForEver();
  ASSERT_OK(group().Barrier());
}

TEST_F(HangTest, BNeedsBothRanks) { Barrier(); }
TEST_F(HangTest, CNeedsBothRanks) { Barrier(); }

// A suite that differs between the ranks.
class Uneven : public ::testing::TestWithParam<int> {};
TEST_P(Uneven, Test) {}
INSTANTIATE_TEST_SUITE_P(Ranks, Uneven, ::testing::Range(0, OnRank("1") ? 2 : 3));

}  // namespace
}  // namespace muster

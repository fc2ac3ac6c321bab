// The fixture on real groups, as a user writes it.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/platform/environment.h"
#include "muster/testing/multi_rank_test.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class MultiRankFixtureTest : public testing::MultiRankTest {};

TEST_F(MultiRankFixtureTest, AGroupOfTheCellsBackendIsReady) {
  float value = static_cast<float>(rank() + 1);
  ASSERT_OK(group().AllReduce(Buffer::Of(value), ReduceOp::kSum));
  EXPECT_EQ(value, world_size() * (world_size() + 1) / 2);
  EXPECT_EQ(group().backend(), backend());
  EXPECT_EQ(group().size(), world_size());
  EXPECT_EQ(group().rank(), rank());
  EXPECT_EQ(group().name(), "MultiRankFixtureTest.AGroupOfTheCellsBackendIsReady");
}

// What holds here is to hold for users: Bazel's folder for a test is too deep for a socket.
TEST_F(MultiRankFixtureTest, TheStoreIsOfTheKindThatMusterRunServes) {
  EXPECT_THAT(Environment::OfProcess().Get("MUSTER_STORE").value_or(""), StartsWith("unix:/"));
}

TEST_F(MultiRankFixtureTest, EachTestHasAPoolOfItsOwn) {
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
  Barrier();
  EXPECT_THAT(AllLiveGroups(), SizeIs(1));
  EXPECT_EQ(pool().statistics().groups_created, 1);
  Barrier();  // else another rank's end may have closed it already
}

TEST_F(MultiRankFixtureTest, ATestThatUsesNoGroupPaysForNone) {
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

TEST_F(MultiRankFixtureTest, TheLeaseCanBeClosedByTheTest) {
  Barrier();
  ASSERT_OK(lease().Close());
  EXPECT_THAT(AllLiveGroups(), IsEmpty());
}

TEST_F(MultiRankFixtureTest, ATestMayAskForGroupsOfItsOwn) {
  GroupSpec other = spec();
  other.name = "other";
  ASSERT_OK_AND_ASSIGN(GroupLease own, pool().Acquire(other));
  EXPECT_OK(own->Barrier());
  Barrier();
}

// As trainers in a loop that own their pools: the ranks are never in step.
TEST_F(MultiRankFixtureTest, PoolsOneAfterTheOtherNeedNoWaiting) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<GroupPool> own,
                         GroupPool::FromEnvironment(pool_options()));
    {
      ASSERT_OK_AND_ASSIGN(GroupLease own_group, own->Acquire(spec()));
      ASSERT_OK(own_group->Barrier());
    }
    ASSERT_OK(own->Close(Scaled(absl::Seconds(5))));
  }
}

class WithParameter : public testing::MultiRankTest, public ::testing::WithParamInterface<int> {};

TEST_P(WithParameter, NamesWithOtherLettersMakeGroupsToo) {
  Barrier();
  EXPECT_THAT(group().name(), HasSubstr("NamesWithOtherLettersMakeGroupsToo-"));
}
INSTANTIATE_TEST_SUITE_P(Some, WithParameter, ::testing::Values(0, 1));

// Two names that differ in what a group's name has no room for.
class OneFixture : public testing::MultiRankTest {};
class AnotherFixture : public testing::MultiRankTest {};

std::set<std::string>& NamesOfGroups() {
  static auto* const names = new std::set<std::string>;
  return *names;
}

TEST_F(OneFixture, SharesItsGroupsNameWithNoTestThatHasTheSameLongEndOfItsOwnName) {
  Barrier();
  EXPECT_EQ(group().name().size(), 64u);
  EXPECT_TRUE(NamesOfGroups().insert(group().name()).second) << group().name();
}

TEST_F(AnotherFixture, SharesItsGroupsNameWithNoTestThatHasTheSameLongEndOfItsOwnName) {
  Barrier();
  EXPECT_TRUE(NamesOfGroups().insert(group().name()).second) << group().name();
}

}  // namespace
}  // namespace muster

// L7: a set-up that fails leaves nothing that the next trainer could trip over, on any rank; and
// all know why.
//
// The story (PL#8080): a group exists, the set-up of what uses it ends in an exception, or in exit,
// on one rank or on all; a test runner catches it and goes on in the same process, and a later
// trainer wants another backend and other settings. What users met: the group stayed, the peers
// waited for ever, and the later trainer silently got the old group or could not make its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/testing/multi_rank_test.h"

namespace muster {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kFailing = 1;  // the rank whose set-up fails

class SetUpTest : public testing::MultiRankTest {
 protected:
  void SetUp() override { before_ = ProcessHoldings::Now(); }

  std::unique_ptr<GroupPool> NewPool() {
    absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::FromEnvironment(pool_options());
    EXPECT_OK(pool);
    return pool.ok() ? *std::move(pool) : nullptr;
  }

  GroupSpec FirstSpec() const {
    GroupSpec first = spec();
    first.name = "train";
    first.backend = backend();
    return first;
  }

  // The other backend, other timeouts, under the same name.
  GroupSpec OtherSpec() const {
    GroupSpec other = FirstSpec();
    other.backend = backend() == "reference" ? "gloo" : "reference";
    other.operation_timeout = Scaled(absl::Seconds(7));
    return other;
  }

  // What a failed group says to a rank that still uses it.
  std::string CauseSeenBy(GroupLease& lease) {
    float value = 1;
    return std::string(lease->AllReduce(Buffer::Of(value), ReduceOp::kSum).message());
  }

  void ExpectNothingLeft() {
    EXPECT_EQ(ProcessHoldings::Beyond(before_, Scaled(absl::Seconds(2))).ToString(), "nothing");
  }

  // The next trainer in this process: works, and is what it asked for.
  void ExpectTheOtherGroupWorks(GroupPool& pool) {
    absl::StatusOr<GroupLease> lease = pool.Acquire(OtherSpec());
    // Each rank that has not heard of the failure yet hears of it here, once, and ends that attempt
    // for those that meet it there.
    for (int late = 1; !lease.ok() && late < world_size(); ++late) {
      EXPECT_THAT(std::string(lease.status().message()),
                  AnyOf(HasSubstr("left: \"an exception\""),
                        HasSubstr("exited while its groups were alive")));
      lease = pool.Acquire(OtherSpec());
    }
    ASSERT_OK(lease);
    EXPECT_EQ((*lease)->backend(), OtherSpec().backend);
    float value = rank() + 1;
    ASSERT_OK((*lease)->AllReduce(Buffer::Of(value), ReduceOp::kSum));
    EXPECT_EQ(value, world_size() * (world_size() + 1) / 2);
    EXPECT_OK(lease->Close());
  }

  ProcessHoldings before_;
};

TEST_F(SetUpTest, AnExceptionInOneRanksSetUpReachesAllAndLeavesNothing) {
  std::unique_ptr<GroupPool> pool = NewPool();
  ASSERT_NE(pool, nullptr);
  try {
    ASSERT_OK_AND_ASSIGN(GroupLease lease, pool->Acquire(FirstSpec()));
    if (rank() == kFailing) throw std::runtime_error("no such data set");
    EXPECT_THAT(CauseSeenBy(lease), HasSubstr("rank 1 left: \"an exception\""));
  } catch (const std::runtime_error&) {  // as a test runner does
    EXPECT_EQ(rank(), kFailing);
  }
  ExpectTheOtherGroupWorks(*pool);
  pool.reset();
  ExpectNothingLeft();
}

TEST_F(SetUpTest, AnExceptionOnEveryRankLeavesNothing) {
  std::unique_ptr<GroupPool> pool = NewPool();
  ASSERT_NE(pool, nullptr);
  try {
    ASSERT_OK_AND_ASSIGN(GroupLease lease, pool->Acquire(FirstSpec()));
    throw std::runtime_error("no such data set");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no such data set");
  }
  ExpectTheOtherGroupWorks(*pool);
  pool.reset();
  ExpectNothingLeft();
}

// The failing rank's first life is a child, so that "the same process" can go on after its exit: to
// its peers it is a restarted rank, with the same number and another incarnation.
TEST_F(SetUpTest, AnExitInOneRanksSetUpReachesAllAndTheRankMayComeBack) {
  if (rank() == kFailing) {
    const pid_t child = fork();
    if (child == 0) {
      GroupPool* const pool = NewPool().release();  // exit runs no destructors of locals either
      if (pool == nullptr) _exit(3);
      absl::StatusOr<GroupLease> lease = pool->Acquire(FirstSpec());
      if (!lease.ok()) _exit(2);
      exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  std::unique_ptr<GroupPool> pool = NewPool();
  ASSERT_NE(pool, nullptr);
  if (rank() != kFailing) {
    ASSERT_OK_AND_ASSIGN(GroupLease lease, pool->Acquire(FirstSpec()));
    EXPECT_THAT(CauseSeenBy(lease),
                ContainsRegex("rank 1 \\(host .*, pid .*\\) exited while its groups were alive"));
  }
  ExpectTheOtherGroupWorks(*pool);
  pool.reset();
  ExpectNothingLeft();
}

// DS#7812: what follows a failed init buries its reason.
TEST_F(SetUpTest, TheEndAfterASetUpThatFailedAddsNothingToItsReason) {
  std::unique_ptr<GroupPool> pool = NewPool();
  ASSERT_NE(pool, nullptr);
  ::testing::internal::CaptureStderr();
  const absl::Status failed =
      pool->Acquire(rank() == kFailing ? OtherSpec() : FirstSpec()).status();
  const absl::Status closed = pool->Close(Scaled(absl::Seconds(5)));
  pool.reset();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInvalidArgument) << failed;
  EXPECT_THAT(std::string(failed.message()), Not(HasSubstr("\n")));
  EXPECT_OK(closed);
  EXPECT_EQ(log, "");
  ExpectNothingLeft();
}

}  // namespace
}  // namespace muster

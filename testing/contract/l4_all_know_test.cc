// L4: what fails on one rank fails every other rank's pending and later work with the same cause,
// which names the rank, within the bound of its kind: 1 s for a process that died,
// heartbeat_timeout for one that is stopped, operation_timeout for one that is stuck in its own
// code.
// //testing/contract:fault_matrix asks it of every phase, :cycles_test of every moment.
#include <signal.h>

#include <functional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/contract/backends_and_ranks.h"
#include "muster/testing/contract/forked_job.h"

namespace muster::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::SizeIs;

class AllKnowTest : public BackendsAndRanksTest {
 protected:
  static constexpr int kFails = 1;

  // Rank 1 runs `fails` once it has its group, the others use theirs until it fails.
  void Start(const std::function<void(JobRank&, GroupLease&)>& fails) {
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank != kFails) job().Start(rank, UseUntilItFails);
    }
    job().Start(kFails, [&](JobRank& rank) {
      const auto pool = rank.MakePool();
      GroupLease lease = rank.Acquire(*pool);
      rank.link.Say("ready");
      fails(rank, lease);
      rank.link.Await();
    });
    for (int rank = 0; rank < ranks(); ++rank) ASSERT_EQ(job().Hear(rank), "ready");
  }

  // Each of the others says it, and all the same: up to the operation that each was in.
  void ExpectAllLearn(const std::string& cause, absl::Duration bound) {
    const absl::Time since = MonotonicNow();
    std::set<std::string> causes;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank == kFails) continue;
      const std::string said = job().Hear(rank);
      EXPECT_THAT(said, ContainsRegex(cause)) << rank;
      const size_t begin = said.find("rank 1");
      if (begin != std::string::npos) causes.insert(said.substr(begin));
    }
    EXPECT_THAT(causes, SizeIs(1));
    EXPECT_LE(MonotonicNow() - since, bound + TimeoutScale() * absl::Seconds(3));
  }

  static void UseForEver(JobRank& /*rank*/, GroupLease& lease) {
    while (AllReduceOne(lease).ok()) {
    }
  }
};

TEST_P(AllKnowTest, AProcessThatDiedIsNamedWithinASecond) {
  Start(UseForEver);
  const pid_t pid = job().process(kFails).pid();
  job().process(kFails).Kill();
  ExpectAllLearn(absl::StrCat("rank 1 \\(host .*, pid ", pid, "\\) was lost"),
                 TimeoutScale() * absl::Seconds(1));
}

TEST_P(AllKnowTest, AProcessThatIsStoppedIsNamedWithinTheHeartbeatTimeout) {
  // Else the operation's own bound may come first.
  job().spec.operation_timeout = TimeoutScale() * absl::Seconds(20);
  Start(UseForEver);
  kill(job().process(kFails).pid(), SIGSTOP);
  ExpectAllLearn("rank 1 \\(host .*\\) was lost: no heartbeat for",
                 job().options.heartbeat_timeout);
}

TEST_P(AllKnowTest, ARankThatIsStuckInItsOwnCodeIsNamedAsWhoHasNotEntered) {
  Start([](JobRank& /*rank*/, GroupLease& lease) {
    for (int i = 0; i < 3; ++i) AllReduceOne(lease).IgnoreError();
  });
  ExpectAllLearn("rank 1 has not entered it \\(it is after #3\\)",
                 job().spec.operation_timeout + 3 * job().spec.cause_window);
}

// PT#192105: an abort kills the healthy process. PT#130345: pending work stays.
TEST_P(AllKnowTest, AnAbortIsAStatusOfThePeersWorkAndTheirProcessesGoOn) {
  Start([](JobRank& /*rank*/, GroupLease& lease) {
    for (int i = 0; i < 3; ++i) AllReduceOne(lease).IgnoreError();
    lease.Abort(absl::DataLossError("label 17 out of range [0, 10)"));
  });
  ExpectAllLearn("rank 1 left: \"label 17 out of range \\[0, 10\\)\"",
                 TimeoutScale() * absl::Seconds(1));
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank == kFails) continue;
    EXPECT_EQ(job().Hear(rank), "left: nothing") << rank;
  }
}

// nccl#289: a peer dies while the communicator is built.
TEST_P(AllKnowTest, AProcessThatDiesInTheSetUpIsNamedToAllWhoWaitForIt) {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank != kFails) job().Start(rank, UseUntilItFails);
  }
  job().Start(kFails, [](JobRank& rank) {
    const auto pool = rank.MakePool();
    rank.link.Say("joined");
    rank.link.Await();
  });
  ASSERT_EQ(job().Hear(kFails), "joined");
  job().process(kFails).Kill();
  ExpectAllLearn("rank 1 ", job().spec.setup_timeout);
}

INSTANTIATE_BACKENDS_AND_RANKS(AllKnowTest);

}  // namespace
}  // namespace muster::testing

// L1: a group that was started comes to its end within a bound that follows from its timeouts,
// whatever becomes of its peers. //testing/contract:fault_matrix asks it of every phase.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

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

using ::testing::StartsWith;

class TerminalTest : public BackendsAndRanksTest {
 protected:
  // The one whose fault it will be.
  int last() const { return ranks() - 1; }

  void StartTheOthers() {
    for (int rank = 0; rank < last(); ++rank) job().Start(rank, UseUntilItFails);
  }
  void AwaitReady() {
    for (int rank = 0; rank < ranks(); ++rank) ASSERT_EQ(job().Hear(rank), "ready");
  }

  // `bound`: of the promise, from now on.
  void ExpectTheOthersEnd(const std::string& how, absl::Duration bound) {
    const absl::Time since = MonotonicNow();
    for (int rank = 0; rank < last(); ++rank) EXPECT_THAT(job().Hear(rank), StartsWith(how));
    EXPECT_LE(MonotonicNow() - since, bound + TimeoutScale() * absl::Seconds(3));
  }
};

TEST_P(TerminalTest, WhenAPeerIsKilled) {
  StartTheOthers();
  job().Start(last(), UseUntilItFails);
  AwaitReady();
  job().process(last()).Kill();
  ExpectTheOthersEnd("aborted: ", TimeoutScale() * absl::Seconds(1));
}

TEST_P(TerminalTest, WhenAPeerIsStopped) {
  StartTheOthers();
  job().Start(last(), UseUntilItFails);
  AwaitReady();
  kill(job().process(last()).pid(), SIGSTOP);
  ExpectTheOthersEnd("aborted: ", job().options.heartbeat_timeout);
}

TEST_P(TerminalTest, WhenAPeerNeverStarts) {
  StartTheOthers();
  ExpectTheOthersEnd("no group: ", job().spec.setup_timeout);
}

TEST_P(TerminalTest, WhenAPeerExitsWithoutAClose) {
  StartTheOthers();
  job().Start(last(), [](JobRank& rank) {
    const auto pool = rank.MakePool();
    const GroupLease lease = rank.Acquire(*pool);
    rank.link.Say("ready");
    rank.link.Await();
    exit(0);
  });
  AwaitReady();
  job().Tell(last());
  ExpectTheOthersEnd("aborted: ", TimeoutScale() * absl::Seconds(1));
}

TEST_P(TerminalTest, WhenAPeerIsStuckInItsOwnCode) {
  StartTheOthers();
  job().Start(last(), [](JobRank& rank) {
    const auto pool = rank.MakePool();
    const GroupLease lease = rank.Acquire(*pool);
    rank.link.Say("ready");
    rank.link.Await();  // nobody tells it anything
  });
  AwaitReady();
  ExpectTheOthersEnd("aborted: ", job().spec.operation_timeout + 3 * job().spec.cause_window +
                                      job().spec.close_timeout);
}

// PT#132696: destroy waits for as long as one rank hangs.
TEST_P(TerminalTest, WhenAPeerIsStuckWhileTheOthersClose) {
  for (int rank = 0; rank < last(); ++rank) {
    job().Start(rank, [](JobRank& self) {
      const auto pool = self.MakePool();
      GroupLease lease = self.Acquire(*pool);
      self.link.Say("ready");
      const absl::Status closed = lease.Close();
      self.link.Say(absl::StrCat(Name(lease->state()), ": ", closed.message()));
    });
  }
  job().Start(last(), [](JobRank& rank) {
    const auto pool = rank.MakePool();
    const GroupLease lease = rank.Acquire(*pool);
    rank.link.Say("ready");
    kill(getpid(), SIGSTOP);
  });
  AwaitReady();
  ExpectTheOthersEnd("aborted: ", job().options.heartbeat_timeout);
}

INSTANTIATE_BACKENDS_AND_RANKS(TerminalTest);

}  // namespace
}  // namespace muster::testing

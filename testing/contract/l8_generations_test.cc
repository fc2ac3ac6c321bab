// L8: each creation is a generation of its own. A slow rank that still ends one and a fast one that
// begins the next do not meet; a process that takes the place of a dead one joins the next; and
// making a group again, on the same store, needs no sleep.
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/contract/backends_and_ranks.h"
#include "muster/testing/contract/forked_job.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GenerationsTest : public BackendsAndRanksTest {
 protected:
  void StartAll(const std::function<void(JobRank&)>& body) {
    for (int rank = 0; rank < ranks(); ++rank) job().Start(rank, body);
  }
  void ExpectAllSay(const std::string& what) {
    for (int rank = 0; rank < ranks(); ++rank) EXPECT_EQ(job().Hear(rank), what) << rank;
  }
};

// PT#151159: after an abort neither destroy nor init works.
TEST_P(GenerationsTest, AfterAnAbortTheNextOneWorksAtOnce) {
  StartAll([](JobRank& rank) {
    const auto pool = rank.MakePool();
    for (int generation = 1; generation <= 10; ++generation) {
      GroupLease lease = rank.Acquire(*pool);
      if (lease->id() != absl::StrCat("train/", generation)) rank.Fail(lease->id());
      if (generation % rank.world.size == rank.rank()) lease.Abort(absl::CancelledError("enough"));
      while (AllReduceOne(lease).ok()) {
      }
      // The others know the cause by now; what ends here ends for itself.
    }
    rank.link.Say("done");
    rank.link.Await();
  });
  ExpectAllSay("done");
}

// HVD#3351: what was made before another init is used after it.
TEST_P(GenerationsTest, ALeaseOnAnOldOneDoesNotReachTheNewOne) {
  StartAll([](JobRank& rank) {
    const auto pool = rank.MakePool();
    GroupLease old = rank.Acquire(*pool);
    if (const absl::Status closed = old.Close(); !closed.ok()) rank.Fail(closed.message());
    GroupLease lease = rank.Acquire(*pool);
    for (int i = 0; i < 10; ++i) {
      const absl::Status refused = AllReduceOne(old);
      if (!absl::IsFailedPrecondition(refused)) rank.Fail(refused.ToString());
      if (const absl::Status used = AllReduceOne(lease); !used.ok()) rank.Fail(used.message());
    }
    rank.link.Say(absl::StrCat(old->id(), " and ", lease->id()));
    lease.Close().IgnoreError();
    rank.link.Await();
  });
  ExpectAllSay("train/1 and train/2");
}

// The slow one is stopped while the others close and begin again, and goes on where it was.
TEST_P(GenerationsTest, ASlowRankThatStillClosesAndFastOnesThatBeginAgainDoNotMeet) {
  StartAll([](JobRank& rank) {
    const auto pool = rank.MakePool();
    for (int generation = 1; generation <= 20; ++generation) {
      GroupLease lease = rank.Acquire(*pool);
      if (lease->id() != absl::StrCat("train/", generation)) rank.Fail(lease->id());
      if (const absl::Status used = AllReduceOne(lease); !used.ok()) rank.Fail(used.message());
      if (const absl::Status closed = lease.Close(); !closed.ok()) rank.Fail(closed.message());
      rank.link.Say("closed");
      if (generation == 20) rank.link.Await();
    }
  });
  for (int generation = 1; generation <= 20; ++generation) {
    // Wherever it is then: closing, between the two, or in the next one.
    const int slow = generation % ranks();
    EXPECT_EQ(job().Hear((slow + 1) % ranks()), "closed");
    kill(job().process(slow).pid(), SIGSTOP);
    usleep(2000);  // shorter than every bound: no more than a rank without a processor
    kill(job().process(slow).pid(), SIGCONT);
    for (int other = 0; other < ranks(); ++other) {
      if (other == (slow + 1) % ranks()) continue;
      EXPECT_EQ(job().Hear(other), "closed") << other;
    }
  }
  EXPECT_EQ(job().KeysLeft(), 0);
}

TEST_P(GenerationsTest, AProcessThatTakesThePlaceOfADeadOneJoinsTheNextOne) {
  const auto body = [](JobRank& rank) {
    const auto pool = rank.MakePool();
    absl::StatusOr<GroupLease> lease = pool->Acquire(rank.spec);
    while (true) {
      if (lease.ok()) {
        rank.link.Say((*lease)->id());
        while (AllReduceOne(*lease).ok()) {
        }
      }
      lease = pool->Acquire(rank.spec);
    }
  };
  StartAll(body);
  ExpectAllSay("train/1");
  job().process(1).Kill();
  job().Start(1, body);
  ExpectAllSay("train/2");
}

// One that was taken for dead is not dead: what it sends later changes nothing for the others.
TEST_P(GenerationsTest, ARankThatWasDeclaredDeadIsFencedAndIsToldWhy) {
  job().spec.operation_timeout = job().spec.setup_timeout = TimeoutScale() * absl::Seconds(20);
  StartAll(UseUntilItFails);
  ExpectAllSay("ready");
  const pid_t stopped = job().process(1).pid();
  kill(stopped, SIGSTOP);
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank == 1) continue;
    EXPECT_THAT(job().Hear(rank), StartsWith("aborted: "));
  }
  kill(stopped, SIGCONT);
  EXPECT_THAT(job().Hear(1), AllOf(StartsWith("aborted: "), HasSubstr("no heartbeat for")));
}

INSTANTIATE_BACKENDS_AND_RANKS(GenerationsTest);

}  // namespace
}  // namespace muster::testing

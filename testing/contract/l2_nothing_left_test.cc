// L2: at its end a group holds no descriptor, thread, memory, segment or key, however it ends.
// Counted in the process of each rank and in the store. Over a thousand groups, memory too:
// //testing/contract:cycles_test.
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/contract/backends_and_ranks.h"
#include "muster/testing/contract/forked_job.h"

namespace muster::testing {
namespace {

using ::testing::StartsWith;

// What a rank holds beyond `before`, in a moment at the latest.
std::string LeftSince(const ProcessHoldings& before) {
  return ProcessHoldings::Beyond(before, TimeoutScale() * absl::Seconds(2)).ToString();
}

class NothingLeftTest : public BackendsAndRanksTest {
 protected:
  void StartAll(const std::function<void(JobRank&)>& body) {
    for (int rank = 0; rank < ranks(); ++rank) job().Start(rank, body);
  }
  void ExpectAllSay(const std::string& what) {
    for (int rank = 0; rank < ranks(); ++rank) EXPECT_EQ(job().Hear(rank), what) << rank;
  }
};

// The pool stays, so that it is the group that is counted.
TEST_P(NothingLeftTest, OfAGroupThatWasClosed) {
  StartAll([](JobRank& rank) {
    const auto pool = rank.MakePool();
    const ProcessHoldings before = ProcessHoldings::Now();
    GroupLease lease = rank.Acquire(*pool);
    if (const absl::Status used = AllReduceOne(lease); !used.ok()) rank.Fail(used.message());
    if (ProcessHoldings::Beyond(before, absl::ZeroDuration()).empty()) {
      rank.Fail("the count sees no group that is there");
    }
    if (const absl::Status used = AllReduceOne(lease); !used.ok()) rank.Fail(used.message());
    if (const absl::Status closed = lease.Close(); !closed.ok()) rank.Fail(closed.message());
    rank.link.Say(LeftSince(before));
    rank.link.Await();
  });
  ExpectAllSay("nothing");
  EXPECT_EQ(job().KeysLeft(), 0);
}

TEST_P(NothingLeftTest, OfAGroupThatWasAborted) {
  StartAll([](JobRank& rank) {
    const auto pool = rank.MakePool();
    const ProcessHoldings before = ProcessHoldings::Now();
    GroupLease lease = rank.Acquire(*pool);
    if (rank.rank() == 0) lease.Abort(absl::DataLossError("label 17 out of range"));
    while (AllReduceOne(lease).ok()) {
    }
    lease.Close().IgnoreError();
    rank.link.Say(LeftSince(before));
    rank.link.Await();
  });
  ExpectAllSay("nothing");
  EXPECT_EQ(job().KeysLeft(), 0);
}

TEST_P(NothingLeftTest, OfAGroupWhosePeerWasKilled) {
  StartAll(UseUntilItFails);
  ExpectAllSay("ready");
  job().process(0).Kill();
  for (int rank = 1; rank < ranks(); ++rank) {
    EXPECT_THAT(job().Hear(rank), StartsWith("aborted: "));
    EXPECT_EQ(job().Hear(rank), "left: nothing");
  }
  EXPECT_EQ(job().KeysLeft(), 0);
}

TEST_P(NothingLeftTest, OfAGroupThatWasNeverMade) {
  for (int rank = 1; rank < ranks(); ++rank) job().Start(rank, UseUntilItFails);
  for (int rank = 1; rank < ranks(); ++rank) {
    EXPECT_THAT(job().Hear(rank), StartsWith("no group: "));
    EXPECT_EQ(job().Hear(rank), "left: nothing");
  }
  EXPECT_EQ(job().KeysLeft(), 0);
}

INSTANTIATE_BACKENDS_AND_RANKS(NothingLeftTest);

}  // namespace
}  // namespace muster::testing

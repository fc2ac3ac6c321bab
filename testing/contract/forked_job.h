// A job whose ranks are processes of the test, so that any of them may be killed, stopped, started
// late or never, and started again.
//
//   ForkedJob job(/*ranks=*/4, "gloo");
//   for (int rank = 0; rank < 3; ++rank) job.Start(rank, UseUntilItFails);
//   job.Start(3, [](JobRank& rank) {
//     GroupLease lease = rank.Acquire();
//     rank.link.Say("ready");
//     rank.link.Await();
//   });
//   EXPECT_EQ(job.Hear(3), "ready");
//   job.process(3).Kill();
#ifndef MUSTER_TESTING_CONTRACT_FORKED_JOB_H_
#define MUSTER_TESTING_CONTRACT_FORKED_JOB_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/group.h"
#include "muster/core/rendezvous/world.h"
#include "muster/testing/contract/forked_process.h"
#include "muster/testing/contract/served_store.h"

namespace muster::testing {

// What a rank has, in its process. What goes wrong here is said to the test and ends the process.
struct JobRank {
  TestLink& link;
  World world;
  GroupSpec spec;  // of "train"
  PoolOptions options;

  std::unique_ptr<GroupPool> MakePool();
  GroupLease Acquire(GroupPool& pool);
  [[noreturn]] void Fail(absl::string_view why);

  int rank() const { return world.rank; }
};

absl::Status AllReduceOne(const GroupLease& lease);

// Makes the group, says "ready", all-reduces until that fails, and says what became of the group
// and what is left of it once the pool is gone too: "aborted: <cause>", "left: nothing". Where the
// group is never made: "no group: <cause>", "left: nothing".
void UseUntilItFails(JobRank& rank);

// Of one thread. Its end kills what is still there.
class ForkedJob {
 public:
  // Bounds: 2 s for the set-up, an operation and the heartbeat, 1 s for a close; each times
  // TimeoutScale().
  ForkedJob(int ranks, const std::string& backend);

  void Start(int rank, const std::function<void(JobRank&)>& body);
  ForkedProcess& process(int rank) { return processes_[static_cast<size_t>(rank)]; }

  // What it says next, within `patience` (times TimeoutScale()); "nothing" otherwise.
  std::string Hear(int rank, absl::Duration patience = absl::Seconds(30));
  void Tell(int rank) { process(rank).Tell("go"); }

  ServedStore& store() { return *store_; }
  // What a store holds besides what may outlive a group, when that is nothing, or after a while.
  int64_t KeysLeft();

  GroupSpec spec;
  PoolOptions options;

 private:
  absl::StatusOr<ServedStore> store_;
  std::vector<ForkedProcess> processes_;
};

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_FORKED_JOB_H_

// Judges what the ranks of a job say while processes of it are killed and started again (L4): every
// failure must name a process that was killed, by rank and by pid, and no group may end as if
// nothing had happened. Pure code: it is fed, and says what was wrong.
//
//   KillJudge judge(3);
//   judge.OnDeath({/*rank=*/1, pid, /*group_was_ready=*/true, /*generation=*/7, MonotonicNow()});
//   judge.OnFailed(0, 7, "all_reduce #3 of train/7: rank 1 (host a, pid 812) was lost: ...", now);
//   ...
//   if (judge.Recovered()) wrong = judge.EndRound();
#ifndef MUSTER_TESTING_CONTRACT_KILL_JUDGE_H_
#define MUSTER_TESTING_CONTRACT_KILL_JUDGE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::testing {

// A process that was killed.
struct Death {
  int rank = 0;
  pid_t pid = 0;
  // Its group was ready and it had agreed to no end of it: no other rank's ends in good order.
  bool group_was_ready = false;
  int64_t generation = 0;  // of that group
  absl::Time at;
};

// One round is from a quiet moment to the next: all ranks in one group, whose processes live.
class KillJudge {
 public:
  explicit KillJudge(int ranks) : first_(ranks, 0), latest_(ranks, 0) {}

  void OnDeath(const Death& death);

  // What the process of `rank` says of its group, or of its attempt to get one (generation 0).
  void OnReady(int rank, int64_t generation);
  void OnClosed(int rank, int64_t generation);
  void OnFailed(int rank, int64_t generation, absl::string_view cause, absl::Time at);

  // Whether every rank has been in one group with the processes that live now.
  bool Recovered() const;
  // What was wrong in this round, a line each. The next one begins.
  std::vector<std::string> EndRound();

  const std::vector<std::string>& wrong() const { return wrong_; }
  // From a death to each failure that names it, of processes that were there before.
  const std::vector<absl::Duration>& delays() const { return delays_; }

 private:
  std::string Deaths() const;
  bool Died(int rank) const;  // in this round: its process is a new one

  // By rank: the generations that its process has been in; 0: none yet.
  std::vector<int64_t> first_;
  std::vector<int64_t> latest_;
  std::vector<Death> deaths_;  // of this round
  std::vector<std::string> wrong_;
  std::vector<absl::Duration> delays_;
};

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_KILL_JUDGE_H_

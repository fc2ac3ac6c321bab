// The gathers of a store's server that wait for ranks. Pure: it says who is to be answered with
// what.
#ifndef MUSTER_CORE_STORE_GATHER_TABLE_H_
#define MUSTER_CORE_STORE_GATHER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/store.h"

namespace muster::store_internal {

// Thread-compatible. Rounds end inside Join, FailRoundsOf, Withdraw and Expire; each calls `answer`
// once for every rank that waited in the round.
class GatherTable {
 public:
  using Session = uint64_t;
  struct Waiter {
    Session session = 0;
    uint64_t request = 0;
  };
  // Gives a waiter its answer. The result is one for all waiters of a round; null unless OK.
  using Result = std::shared_ptr<const GatherResult>;
  using Answer = absl::FunctionRef<void(const Waiter&, const absl::Status&, const Result&)>;

  struct Contribution {
    Waiter waiter;
    std::string who;  // "host a, pid 7"
    int rank = 0;
    int size = 0;
    std::string value;
    absl::Time deadline;
    std::vector<int> members;  // as Gathering has it
    std::string waits_in;
    absl::Time came = absl::InfinitePast();
  };

  // Of the values of one round together and of all that wait; rounds that wait at once; of one
  // session in them: contributions, and the bytes of their values.
  struct Limits {
    size_t round_bytes = kMaxGatherBytes;
    size_t bytes = kMaxWaitingBytes;
    size_t rounds = kMaxGathers;
    size_t per_session = kGathersPerSession;
    size_t bytes_per_session = kWaitingBytesPerSession;
  };

  explicit GatherTable(const Limits& limits) : limits_(limits) {}

  // OK when it waits or the round completed; an error concerns this contribution alone, which then
  // is not a part of the round. `next_revision` is asked when a round completes.
  absl::Status Join(absl::string_view key, Contribution contribution,
                    absl::FunctionRef<Revision()> next_revision, Answer answer);

  // Fails every round that `session` takes part in. `rank`: of the job, as far as is known.
  void FailRoundsOf(Session session, absl::FunctionRef<absl::Status(int rank)> cause,
                    Answer answer);

  void Withdraw(Session session, absl::string_view key, int rank, absl::string_view reason,
                Answer answer);

  // Fails the rounds whose earliest deadline has passed, and those of ranks that have waited for
  // each other for Store::kCycleGrace.
  void Expire(absl::Time now, Answer answer);

  absl::Time NextDeadline() const;
  size_t waiting_rounds() const { return rounds_.size(); }

 private:
  struct Round {
    int size = 0;
    size_t bytes = 0;
    absl::Time deadline = absl::InfiniteFuture();
    std::vector<int> members;
    std::map<int, Contribution> contributions;

    int InJob(int rank) const { return members.empty() ? rank : members[rank]; }
  };
  using Rounds = std::map<std::string, Round, std::less<>>;

  // One rank of a cycle: what it waits in, and for whom, who is the next one's `rank`.
  struct Wait {
    int rank = 0;  // of the job
    Rounds::iterator round;
    const Contribution* contribution = nullptr;
  };

  // Takes the round out of the table, so that the key is free before anybody is answered.
  Round Take(Rounds::iterator round);
  void Fail(Rounds::iterator round, const absl::Status& status, Answer answer);
  void SetDeadline(Rounds::iterator round, absl::Time deadline);
  // Of ranks of the job: those that the round's members are without the ones that came.
  static std::vector<int> Missing(const Round& round);
  // The only gather that `rank` waits in and can come to no other one before; null when there is
  // none, or several: then it has several threads.
  const std::pair<Rounds::iterator, const Contribution*>* StuckIn(int rank) const;
  // Ranks that wait for each other, beginning with `rank`; empty when it is in no cycle.
  std::vector<Wait> CycleOf(int rank) const;
  void FailCycles(absl::Time now, Answer answer);

  // ResourceExhausted with the limit, what was seen and what to do.
  absl::Status CheckLimits(absl::string_view key, const Contribution& contribution,
                           const Round* round) const;

  const Limits limits_;
  Rounds rounds_;
  size_t bytes_ = 0;  // of all rounds
  struct Waiting {
    size_t contributions = 0;
    size_t bytes = 0;
  };
  std::map<Session, Waiting> waiting_of_;  // none of 0 contributions
  std::set<std::pair<absl::Time, std::string>> deadlines_;
  // Contributions with waits_in, by the rank of the job.
  std::map<int, std::vector<std::pair<Rounds::iterator, const Contribution*>>> stuck_;
  absl::Time look_for_cycles_at_ = absl::InfiniteFuture();
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_GATHER_TABLE_H_

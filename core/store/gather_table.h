// The gathers of a store's server that wait for ranks. Pure: it says who is to be answered with
// what.
#ifndef MUSTER_CORE_STORE_GATHER_TABLE_H_
#define MUSTER_CORE_STORE_GATHER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
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
  // Gives a waiter its answer; a result is one for all waiters of a round.
  using Answer = absl::FunctionRef<void(const Waiter&, const absl::Status&, const GatherResult&)>;

  struct Contribution {
    Waiter waiter;
    std::string who;  // "host a, pid 7"
    int rank = 0;
    int size = 0;
    std::string value;
    absl::Time deadline;
  };

  // Of the values of one round together and of all that wait; rounds that wait at once, and
  // contributions of one session in them.
  struct Limits {
    size_t round_bytes = kMaxGatherBytes;
    size_t bytes = kMaxWaitingBytes;
    size_t rounds = kMaxGathers;
    size_t per_session = kGathersPerSession;
  };

  explicit GatherTable(const Limits& limits) : limits_(limits) {}

  // OK when it waits or the round completed; an error concerns this contribution alone, which then
  // is not a part of the round. `next_revision` is asked when a round completes.
  absl::Status Join(absl::string_view key, Contribution contribution,
                    absl::FunctionRef<Revision()> next_revision, Answer answer);

  // Fails every round that `session` takes part in.
  void FailRoundsOf(Session session, absl::FunctionRef<absl::Status(int rank)> cause,
                    Answer answer);

  void Withdraw(Session session, absl::string_view key, int rank, absl::string_view reason,
                Answer answer);

  // Fails the rounds whose earliest deadline has passed.
  void Expire(absl::Time now, Answer answer);

  absl::Time NextDeadline() const;
  size_t waiting_rounds() const { return rounds_.size(); }

 private:
  struct Round {
    int size = 0;
    size_t bytes = 0;
    absl::Time deadline = absl::InfiniteFuture();
    std::map<int, Contribution> contributions;
  };
  using Rounds = std::map<std::string, Round, std::less<>>;

  // Takes the round out of the table, so that the key is free before anybody is answered.
  Round Take(Rounds::iterator round);
  void Fail(Rounds::iterator round, const absl::Status& status, Answer answer);
  void SetDeadline(Rounds::iterator round, absl::Time deadline);

  // ResourceExhausted with the limit, what was seen and what to do.
  absl::Status CheckLimits(absl::string_view key, const Contribution& contribution,
                           const Round* round) const;

  const Limits limits_;
  Rounds rounds_;
  size_t bytes_ = 0;                      // of all rounds
  std::map<Session, size_t> waiting_of_;  // contributions; none of 0
  std::set<std::pair<absl::Time, std::string>> deadlines_;
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_GATHER_TABLE_H_

// Ranks that are threads of one process: collectives for the unit tests of the trainer's parts.
//
//   std::vector<absl::Status> statuses =
//       RunRanks(4, [](Collectives& ranks) { ... return absl::OkStatus(); });
#ifndef MUSTER_TRAINER_IN_PROCESS_COLLECTIVES_H_
#define MUSTER_TRAINER_IN_PROCESS_COLLECTIVES_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "muster/trainer/collectives.h"

namespace muster {

// Thread-safe. Reduces in the order of ranks, so that every rank has the same bits. Ranks that meet
// with different operations or sizes get InvalidArgument, each: what would be a hang in life is a
// failed test here.
class InProcessWorld {
 public:
  explicit InProcessWorld(int size);
  ~InProcessWorld();

  int size() const;
  // Rank `rank`, used by one thread at a time.
  Collectives& rank(int rank);

  // Ends what waits and what follows with `cause`; the first one counts.
  void Abort(const absl::Status& cause);

 private:
  class Hub;
  class Rank;
  std::unique_ptr<Hub> hub_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

// Runs `body` on one thread a rank and gives what each returned. When one fails the world is
// aborted with "rank 1 left: ...", as a group would be.
std::vector<absl::Status> RunRanks(int size, const std::function<absl::Status(Collectives&)>& body);

}  // namespace muster

#endif  // MUSTER_TRAINER_IN_PROCESS_COLLECTIVES_H_

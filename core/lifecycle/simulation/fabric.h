// The imitation of a backend: communicators that connect, work, finalize and abort in virtual time,
// or do not.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_FABRIC_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_FABRIC_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/simulation/scenario.h"
#include "muster/core/platform/manual_executor.h"

namespace muster::simulation {

// Each `done` runs at most once, later, on the executor; whoever hung up in between must not mind.
class Fabric {
 public:
  using Done = std::function<void(absl::Status)>;

  Fabric(const Scenario& scenario, ManualExecutor* executor, Random* random)
      : scenario_(scenario), executor_(executor), random_(random) {}

  // `group` is the same string on all ranks of one generation. Ends with an error where a peer is
  // gone.
  void Connect(const std::string& group, int rank, int size, absl::Time deadline, Done done);
  // The collective `number`: done when every rank has come to it.
  void Work(const std::string& group, int rank, int64_t number, Done done);
  void Finalize(const std::string& group, int rank, Done done);
  // Gives up this rank's end, whatever it is doing. `released` may never run: a library that hangs.
  void Abort(const std::string& group, int rank, std::function<void()> released);
  // The process is dead: its peers may notice.
  void Vanish(const std::string& group, int rank);

  // From now on nothing goes wrong by itself.
  void CalmDown() { calm_ = true; }

 private:
  struct Communicator {
    int size = 0;
    std::vector<bool> gone;
    std::map<int, Done> connecting;
    std::map<int64_t, std::map<int, Done>> work;  // by number, by rank
  };

  bool Trouble(int per_mille);
  absl::Duration Delay() { return random_->Between(absl::ZeroDuration(), scenario_.max_delay); }
  void After(absl::Duration delay, Done done, absl::Status status);
  Communicator& At(const std::string& group, int size = 0);
  void FailWaiting(Communicator& communicator, int gone);
  bool HasGone(const Communicator& communicator, int* rank) const;

  const Scenario scenario_;
  ManualExecutor* const executor_;
  Random* const random_;
  bool calm_ = false;
  std::map<std::string, Communicator> communicators_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_FABRIC_H_

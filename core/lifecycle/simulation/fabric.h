// The imitation of a backend: communicators that connect, work, finalize and abort in virtual time,
// or do not.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_FABRIC_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_FABRIC_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace muster::simulation {

struct World;

// Each `done` runs at most once, later, on the executor; whoever hung up in between must not mind.
class Fabric {
 public:
  using Done = std::function<void(absl::Status)>;

  explicit Fabric(World* world) : world_(world) {}

  // `group` is the same string on all ranks of one generation. Ends with an error where a peer is
  // gone.
  void Connect(const std::string& group, int rank, int size, absl::Duration timeout, Done done);
  // The collective `number`: done when every rank has come to it.
  void Work(const std::string& group, int rank, int64_t number, Done done);
  void Finalize(const std::string& group, int rank, Done done);
  // Gives up this rank's end, whatever it is doing. `released` may never run: a library that hangs.
  void Abort(const std::string& group, int rank, std::function<void()> released);
  // The process is dead: its peers may notice.
  void Vanish(const std::string& group, int rank);

 private:
  struct Communicator {
    int size = 0;
    std::vector<bool> gone;
    std::map<int, Done> connecting;
    std::map<int64_t, std::map<int, Done>> work;  // by number, by rank
  };

  absl::Duration Delay();
  absl::Duration UpTo(absl::Duration most);
  void After(int rank, absl::Duration delay, Done done, absl::Status status);
  void FailWaiting(Communicator& communicator, int gone);
  bool HasGone(const Communicator& communicator, int* rank) const;

  World* const world_;
  std::map<std::string, Communicator> communicators_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_FABRIC_H_

// When things happen that take time: messages, what the backend does, the next step of a program.
//
// Alarms and deadlines are not here: they are the executor's timers, and come when they are due.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_SCHEDULE_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_SCHEDULE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/time/time.h"
#include "muster/core/platform/manual_executor.h"

namespace muster::simulation {

// Events of one lane may wait for each other, those of different lanes never do.
struct Lane {
  enum class Kind {
    kToStore,    // of one session: keeps its order, as on a socket
    kFromStore,  // the same
    kBackend,    // of one rank
    kOwner,      // the program of one rank
    kFate,       // what happens to one rank
  };
  Kind kind = Kind::kFate;
  int rank = 0;
  uint64_t number = 0;  // tells lanes of one kind and rank from each other

  bool ordered() const { return kind == Kind::kToStore || kind == Kind::kFromStore; }
  bool operator<(const Lane& other) const {
    return std::tie(kind, rank, number) < std::tie(other.kind, other.rank, other.number);
  }
};
std::string Describe(const Lane& lane);

// Parts of the world that are no rank, for Touch.
inline constexpr int kStorePart = -1;
inline constexpr int kBackendPart = -2;

class Schedule {
 public:
  virtual ~Schedule() = default;

  // Runs `task` in about `delay`; in an ordered lane not before what was added to it earlier.
  virtual void Add(const Lane& lane, absl::Duration delay, std::function<void()> task) = 0;
  // The event that runs looks at, or changes, this part of the world.
  virtual void Touch(int part) = 0;
  // Lets everything happen up to `limit` or until done().
  virtual void RunUntil(absl::Time limit, const std::function<bool()>& done) = 0;
};

// The delays decide.
class TimedSchedule final : public Schedule {
 public:
  explicit TimedSchedule(ManualExecutor* executor) : executor_(executor) {}

  void Add(const Lane& lane, absl::Duration delay, std::function<void()> task) override;
  void Touch(int) override {}
  void RunUntil(absl::Time limit, const std::function<bool()>& done) override;

 private:
  ManualExecutor* const executor_;
  std::map<Lane, absl::Time> last_;  // of the ordered ones
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_SCHEDULE_H_

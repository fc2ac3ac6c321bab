// What GroupPool::Acquire does about a name: pure, so that it can be tested case by case and
// simulated.
#ifndef MUSTER_CORE_LIFECYCLE_POOL_DECISION_H_
#define MUSTER_CORE_LIFECYCLE_POOL_DECISION_H_

#include <string>

#include "absl/status/status.h"
#include "muster/core/lifecycle/state.h"

namespace muster {

// What the pool knows of the group that bears the wanted name.
struct NamedGroup {
  bool exists = false;
  std::string id;  // "train/1"
  GroupState state = GroupState::kCreated;
  bool voting = false;     // a replacement is being voted on, and this rank has not refused it
  std::string holders;     // "trainer.cc:88, trainer.cc:90"; "" when no lease is out here
  std::string difference;  // between its identity and the wanted one; "" when they are equal
};

struct AcquireDecision {
  enum class Kind {
    kCreate,   // make a generation with the peers
    kReuse,    // hand out the live group, without communication
    kWait,     // something is under way that ends within a bound: decide again after it
    kPropose,  // ask all ranks to give the name free, then decide again
    kRefuse,   // `why`
  };
  Kind kind = Kind::kCreate;
  absl::Status why;
};

AcquireDecision DecideAcquire(const NamedGroup& group);

}  // namespace muster

#endif  // MUSTER_CORE_LIFECYCLE_POOL_DECISION_H_

// Mistakes planted in the real code, which is the protocol's, the pool's decisions' and the store's
// engine's: protocol_mutations.txt, by mutator.cc.
//
// There are two implementations of this header: with `:real_simulator` a program has the code as it
// is and the list is empty; with `:broken_simulator` it has one that makes the mistake that was
// asked for.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_PROTOCOL_MUTATIONS_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_PROTOCOL_MUTATIONS_H_

#include <string>
#include <vector>

namespace muster::simulation {

struct ProtocolMutation {
  std::string name;
  std::string breaks;  // the promise, and words of the check that sees it: "L3: was let in"
};

// The first one is number 1.
std::vector<ProtocolMutation> ProtocolMutations();

// From now on every protocol of this process makes mistake `number`; 0: none. While none runs.
void PlantProtocolMutation(int number);

// For the broken code.
bool IsPlanted(int number);

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_PROTOCOL_MUTATIONS_H_

// Mistakes planted in the protocol itself: protocol_mutations.txt, by mutator.cc.
//
// There are two implementations of this header: with `:protocol` a program has the protocol as it
// is and the list is empty; with `:broken_protocol` it has one that makes the mistake that was
// asked for.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_PROTOCOL_MUTATIONS_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_PROTOCOL_MUTATIONS_H_

#include <string>
#include <vector>

namespace muster::simulation {

// Their names; the first one is number 1.
std::vector<std::string> ProtocolMutations();

// From now on every protocol of this process makes mistake `number`; 0: none. While none runs.
void PlantProtocolMutation(int number);

// For the broken code.
bool IsPlanted(int number);

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_PROTOCOL_MUTATIONS_H_

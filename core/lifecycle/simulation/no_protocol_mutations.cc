#include "muster/core/lifecycle/simulation/protocol_mutations.h"

namespace muster::simulation {

std::vector<ProtocolMutation> ProtocolMutations() { return {}; }
void PlantProtocolMutation(int) {}
bool IsPlanted(int) { return false; }

}  // namespace muster::simulation

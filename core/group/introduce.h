// What a rank brings to the meeting for a new group: who it is, what it wants, and which backends
// it could use.
#ifndef MUSTER_CORE_GROUP_INTRODUCE_H_
#define MUSTER_CORE_GROUP_INTRODUCE_H_

#include <string>
#include <vector>

#include "muster/core/collective/backend.h"
#include "muster/core/collective/device.h"
#include "muster/core/group/group_spec.h"
#include "muster/core/lifecycle/agreement.h"
#include "muster/core/observe/live_groups.h"

namespace muster {

// The backends of the registry that could serve `spec` here, best first: what "auto" chooses from.
// nccl leads on a GPU, gloo and reference on the CPU; those that are not named here come after
// these, in the order of their names.
std::vector<std::string> BackendOffers(const BackendRegistry& backends, const GroupSpec& spec);

// Adds to `self`, which says who this rank is, what it wants and offers, or why it cannot take
// part: its backend is not linked in or does not work here ("auto": none does), or its device has
// residue.
Introduction Introduce(Introduction self, const GroupSpec& spec, const BackendRegistry& backends,
                       const LivePools& pools);

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_INTRODUCE_H_

// Which protocol of the store this is: what Hello says and the proofs cover (auth.h).
#ifndef MUSTER_CORE_STORE_WIRE_VERSION_H_
#define MUSTER_CORE_STORE_WIRE_VERSION_H_

#include <cstdint>

namespace muster::store_internal {

// 1 had no seals, 2 no members of a gather, 3 no version in the proofs.
inline constexpr uint32_t kWireVersion = 4;

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_WIRE_VERSION_H_

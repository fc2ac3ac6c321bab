// Ranks as threads of one process, for tests: each has a pool of its own over one memory store.
//
//   MemoryStoreServer server(...);
//   // on thread r of n:
//   absl::StatusOr<std::unique_ptr<GroupPool>> pool = CreateInProcessPool(r, n, server);
#ifndef MUSTER_CORE_GROUP_IN_PROCESS_POOL_H_
#define MUSTER_CORE_GROUP_IN_PROCESS_POOL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/store/memory_store.h"

namespace muster {

// `server` outlives the pool.
absl::StatusOr<std::unique_ptr<GroupPool>> CreateInProcessPool(int rank, int size,
                                                               MemoryStoreServer& server,
                                                               PoolOptions options = {});

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_IN_PROCESS_POOL_H_

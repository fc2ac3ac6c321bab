// Ranks on the threads of one test, connected by gloo, and which of the threads is gloo's own:
//
//   testing::MemoryConnectHub hub(2);
//   absl::StatusOr<int> loop = ConnectGlooRanks(
//       hub, 2, deadline, [&](int rank, ConnectStore* store) { return Connect(rank, store); });
//   // `*loop` is the task of the event loop of rank 1: a test may make it stand still.
#ifndef MUSTER_BACKENDS_GLOO_GLOO_TEST_RANKS_H_
#define MUSTER_BACKENDS_GLOO_GLOO_TEST_RANKS_H_

#include <set>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/collective/backend.h"
#include "muster/testing/memory_connect_store.h"

namespace muster {

// The numbers among the names in `directory`.
std::set<int> EntriesOf(const char* directory);

// `connect` of each rank, on a thread of its own. The task of gloo's thread of the last rank, or
// why one of them failed.
absl::StatusOr<int> ConnectGlooRanks(
    testing::MemoryConnectHub& hub, int size, absl::Time deadline,
    absl::FunctionRef<absl::Status(int rank, ConnectStore* store)> connect);

}  // namespace muster

#endif  // MUSTER_BACKENDS_GLOO_GLOO_TEST_RANKS_H_

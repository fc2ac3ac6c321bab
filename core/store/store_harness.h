// A store under test with its server and its ranks, whatever kind it is: see
// store_conformance_test.cc.
#ifndef MUSTER_CORE_STORE_STORE_HARNESS_H_
#define MUSTER_CORE_STORE_STORE_HARNESS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/platform/executor.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"

namespace muster::store_testing {

class StoreHarness {
 public:
  virtual ~StoreHarness() = default;

  virtual absl::StatusOr<std::unique_ptr<Store>> Connect(const SessionInfo& info) = 0;
  // Where the callbacks of `rank`'s stores run.
  virtual Executor* executor(int rank) = 0;
  // What a launcher does.
  virtual void DeclareLost(int rank, absl::string_view reason) = 0;
  // As if the process of `rank` had died.
  virtual void Kill(int rank) = 0;
  virtual void StopServer() = 0;
};

// One for each store.
std::unique_ptr<StoreHarness> MakeMemoryHarness(int world_size);
std::unique_ptr<StoreHarness> MakeTcpHarness(int world_size);
std::unique_ptr<StoreHarness> MakeUnixHarness(int world_size);

}  // namespace muster::store_testing

#endif  // MUSTER_CORE_STORE_STORE_HARNESS_H_

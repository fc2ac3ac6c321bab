// A job's store in a process of its own, which outlives all ranks, for tests that kill and start
// them.
#ifndef MUSTER_TESTING_CONTRACT_SERVED_STORE_H_
#define MUSTER_TESTING_CONTRACT_SERVED_STORE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/rendezvous/world.h"
#include "muster/testing/contract/forked_process.h"

namespace muster::testing {

// In KiB, of this process.
int64_t ResidentMemory();

class ServedStore {
 public:
  // On a free port of the loopback interface. The test has one thread.
  static absl::StatusOr<ServedStore> Start(int ranks);

  const std::string& address() const { return address_; }
  World RankOf(int rank) const;

  // What it holds.
  struct Contents {
    int64_t records = 0;  // the one that each name may leave behind
    int64_t keys = 0;     // all others but the ranks' sessions
    int64_t fds = 0;
    int64_t memory = 0;  // of its process, in KiB
  };
  absl::StatusOr<Contents> Look();

  // As a launcher says it of a process that it has reaped, or, here, has not.
  void DeclareLost(int rank);

 private:
  ServedStore(int ranks, ForkedProcess process, std::string address)
      : ranks_(ranks), process_(std::move(process)), address_(std::move(address)) {}

  int ranks_;
  ForkedProcess process_;
  std::string address_;
};

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_SERVED_STORE_H_

// Jobs whose ranks are threads of one process, each with a pool of its own: for tests of what uses
// real groups.
#ifndef MUSTER_TRAINER_IN_PROCESS_JOB_H_
#define MUSTER_TRAINER_IN_PROCESS_JOB_H_

#include <functional>
#include <memory>
#include <thread>  // NOLINT: ranks are threads here
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/in_process_pool.h"
#include "muster/core/store/memory_store.h"

namespace muster {

// Runs `body` on one thread a rank and gives what each returned. The pools end before it returns.
inline std::vector<absl::Status> RunJobInProcess(
    int size, const std::function<absl::Status(int rank, GroupPool& pool)>& body) {
  std::vector<absl::Status> results(size);
  MemoryStoreServer server({size});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      absl::StatusOr<std::unique_ptr<GroupPool>> pool = CreateInProcessPool(rank, size, server);
      results[rank] = pool.ok() ? body(rank, **pool) : pool.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace muster

#endif  // MUSTER_TRAINER_IN_PROCESS_JOB_H_

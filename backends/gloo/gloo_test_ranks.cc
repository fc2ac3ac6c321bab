#include "muster/backends/gloo/gloo_test_ranks.h"

#include <dirent.h>

#include <set>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "muster/core/collective/backend.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/testing/memory_connect_store.h"

namespace muster {

std::set<int> EntriesOf(const char* directory) {
  std::set<int> result;
  DIR* const dir = opendir(directory);
  while (const dirent* entry = readdir(dir)) {
    int number = 0;
    if (absl::SimpleAtoi(entry->d_name, &number)) result.insert(number);
  }
  closedir(dir);
  return result;
}

absl::StatusOr<int> ConnectGlooRanks(
    testing::MemoryConnectHub& hub, int size, absl::Time deadline,
    absl::FunctionRef<absl::Status(int rank, ConnectStore* store)> connect) {
  std::vector<absl::Status> results(static_cast<size_t>(size));
  std::vector<std::thread> ranks;
  const auto start = [&](int rank) {
    ranks.emplace_back([&hub, connect, rank, &result = results[static_cast<size_t>(rank)]] {
      result = connect(rank, hub.ForRank(rank, nullptr).get());
    });
  };
  for (int rank = 0; rank + 1 < size; ++rank) start(rank);
  // Their threads are there: what comes now is of the last rank.
  const bool waiting = hub.AwaitWaiting(size - 1, deadline);
  const std::set<int> before = EntriesOf("/proc/self/task");
  start(size - 1);
  for (std::thread& rank : ranks) rank.join();
  for (const absl::Status& result : results) {
    if (!result.ok()) return result;
  }
  if (!waiting) return absl::DeadlineExceededError("the first ranks did not come to wait");
  // The kernel takes a moment to count out the threads that were joined.
  std::vector<int> made;
  do {
    made.clear();
    for (int task : EntriesOf("/proc/self/task")) {
      if (before.count(task) == 0) made.push_back(task);
    }
  } while (made.size() > 1 && MonotonicNow() < deadline);
  if (made.size() == 1) return made[0];
  return absl::InternalError(absl::StrCat("the last rank made ", made.size(), " threads, not 1"));
}

}  // namespace muster

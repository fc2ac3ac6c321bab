// The ranks that the job's store declares lost, on their way to the launcher.
#ifndef MUSTER_CORE_LAUNCH_LOST_RANKS_H_
#define MUSTER_CORE_LAUNCH_LOST_RANKS_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {

// News from the store's threads to the launcher's, with a descriptor to poll.
// Thread-safe.
class LostRanks {
 public:
  struct Lost {
    int rank;
    std::string reason;
  };

  LostRanks() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { event_.MoveAboveStandard(); }

  bool valid() const { return event_.valid(); }
  int fd() const { return event_.get(); }

  void Add(int rank, absl::string_view reason) {
    absl::MutexLock lock(&mutex_);
    lost_.push_back({rank, std::string(reason)});
    const uint64_t one = 1;
    (void)!write(event_.get(), &one, sizeof(one));
  }

  std::vector<Lost> Take() {
    absl::MutexLock lock(&mutex_);
    uint64_t count = 0;
    (void)!read(event_.get(), &count, sizeof(count));
    return std::exchange(lost_, {});
  }

 private:
  UniqueFd event_;
  absl::Mutex mutex_;
  std::vector<Lost> lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_LOST_RANKS_H_

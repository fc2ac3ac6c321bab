// What the job's store sees of the ranks' sessions, on its way to the launcher.
#ifndef MUSTER_CORE_LAUNCH_SESSION_NEWS_H_
#define MUSTER_CORE_LAUNCH_SESSION_NEWS_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {

// News from the store's threads to the launcher's, with a descriptor to poll.
// Thread-safe.
class SessionNews {
 public:
  struct News {
    int rank;
    std::optional<std::string> lost;  // why; or a session of it has begun
  };

  SessionNews() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { event_.MoveAboveStandard(); }

  bool valid() const { return event_.valid(); }
  int fd() const { return event_.get(); }

  void Add(News news) {
    absl::MutexLock lock(&mutex_);
    news_.push_back(std::move(news));
    const uint64_t one = 1;
    (void)!write(event_.get(), &one, sizeof(one));
  }

  std::vector<News> Take() {
    absl::MutexLock lock(&mutex_);
    uint64_t count = 0;
    (void)!read(event_.get(), &count, sizeof(count));
    return std::exchange(news_, {});
  }

 private:
  UniqueFd event_;
  absl::Mutex mutex_;
  std::vector<News> news_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_SESSION_NEWS_H_

#include "muster/core/platform/observed_thread.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {
namespace {

// Whether the kernel lists the thread as sleeping: "7 (a name) S 1 ...", and the name may hold
// anything.
bool SleepsNow(pid_t thread) {
  std::ifstream file(absl::StrCat("/proc/self/task/", thread, "/stat"));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] == 'S';
}

}  // namespace

ObservedThread::ObservedThread(std::function<void()> body) : state_(std::make_shared<State>()) {
  thread_ = std::thread([state = state_, body = std::move(body)]() mutable {
    {
      absl::MutexLock lock(&state->mutex);
      state->id = static_cast<pid_t>(syscall(SYS_gettid));
    }
    body();
    body = nullptr;
    absl::MutexLock lock(&state->mutex);
    state->returned = true;
  });
}

bool ObservedThread::AwaitAsleep(absl::Time deadline) const {
  for (;;) {
    {
      absl::MutexLock lock(&state_->mutex);
      if (state_->returned || (state_->id != 0 && SleepsNow(state_->id))) return true;
    }
    if (MonotonicNow() >= deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));  // the kernel tells only who asks
  }
}

}  // namespace muster

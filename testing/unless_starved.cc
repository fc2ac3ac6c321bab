#include "muster/testing/unless_starved.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <thread>  // NOLINT(build/c++11): absl has no thread

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster::testing {
namespace {

using ::testing::ScopedFakeTestPartResultReporter;
using ::testing::TestPartResult;
using ::testing::TestPartResultArray;

constexpr absl::Duration kLook = absl::Milliseconds(5);

bool HasFailure(const TestPartResultArray& results) {
  for (int i = 0; i < results.size(); ++i) {
    if (results.GetTestPartResult(i).failed()) return true;
  }
  return false;
}

}  // namespace

struct StarvationMeter::State {
  absl::Notification over;
  mutable absl::Mutex mutex;
  absl::Duration longest ABSL_GUARDED_BY(mutex);
  std::thread thread;
};

StarvationMeter::StarvationMeter() : state_(std::make_unique<State>()) {
  state_->thread = std::thread([state = state_.get()] {
    while (true) {
      const absl::Time before = MonotonicNow();
      if (state->over.WaitForNotificationWithTimeout(kLook)) return;
      absl::MutexLock lock(&state->mutex);
      state->longest = std::max(state->longest, MonotonicNow() - before - kLook);
    }
  });
}

StarvationMeter::~StarvationMeter() {
  state_->over.Notify();
  state_->thread.join();
}

absl::Duration StarvationMeter::Longest() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->longest;
}

void UnlessStarved(const std::function<void()>& scenario, const Attempts& attempts) {
  for (int attempt = 1; attempt <= attempts.at_most; ++attempt) {
    TestPartResultArray results;
    absl::Duration longest;
    {
      const StarvationMeter meter;
      ScopedFakeTestPartResultReporter reporter(
          ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
      scenario();
      longest = attempts.longest_wait ? attempts.longest_wait() : meter.Longest();
    }
    const bool failed = HasFailure(results);
    const bool counts = !failed || longest <= attempts.tolerated;
    for (int i = 0; i < results.size(); ++i) {
      const TestPartResult& result = results.GetTestPartResult(i);
      if (!counts) std::cout << result << std::endl;
      if (counts && result.failed()) {
        ADD_FAILURE_AT(result.file_name(), result.line_number()) << result.message();
      }
    }
    if (counts) return;
    std::cout << "attempt " << attempt << " of " << attempts.at_most
              << " does not count: the machine kept it waiting for " << longest << std::endl;
  }
  GTEST_SKIP() << "the machine kept each of " << attempts.at_most << " attempts waiting";
}

}  // namespace muster::testing

// What tests of stores share: callbacks that can be waited for, and a log of what a watch saw.
#ifndef MUSTER_CORE_STORE_STORE_TEST_UTIL_H_
#define MUSTER_CORE_STORE_STORE_TEST_UTIL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"

namespace muster::store_testing {

// Long enough for the slowest machine; no test that passes waits for it.
inline absl::Duration Patience() { return TimeoutScale() * absl::Seconds(30); }
inline absl::Time Soon() { return MonotonicNow() + Patience(); }

// An answer that will come, once. R is absl::Status or absl::StatusOr<T>.
template <class R>
class Promised {
 public:
  // A callback for the store. Counts how often it runs.
  absl::AnyInvocable<void(R)> Callback() {
    return [state = state_](R result) {
      absl::MutexLock lock(&state->mutex);
      ++state->calls;
      state->result = std::move(result);
    };
  }

  bool Ready() const {
    absl::MutexLock lock(&state_->mutex);
    return state_->result.has_value();
  }

  R Get() const {
    absl::MutexLock lock(&state_->mutex);
    const auto ready = [this] { return state_->result.has_value(); };
    if (!state_->mutex.AwaitWithTimeout(absl::Condition(&ready), Patience())) {
      ADD_FAILURE() << "no answer came";
      return absl::InternalError("no answer came");
    }
    return *state_->result;
  }

  int calls() const {
    absl::MutexLock lock(&state_->mutex);
    return state_->calls;
  }

 private:
  struct State {
    absl::Mutex mutex;
    std::optional<R> result;
    int calls = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

template <class T>
using PromisedOr = Promised<absl::StatusOr<T>>;

// Everything a watch was told.
class WatchLog {
 public:
  Store::WatchCallback Callback() {
    return [state = state_](absl::StatusOr<std::vector<WatchEvent>> batch) {
      absl::MutexLock lock(&state->mutex);
      if (!batch.ok()) {
        state->end = batch.status();
        return;
      }
      ++state->batches;
      state->events.insert(state->events.end(), batch->begin(), batch->end());
    };
  }

  struct State {
    absl::Mutex mutex;
    int batches = 0;
    std::vector<WatchEvent> events;
    absl::Status end;  // not OK once the watch has ended
  };

  // Waits until `ready(state)`; a failure when it never is.
  template <class Ready>
  void Await(Ready ready) const {
    absl::MutexLock lock(&state_->mutex);
    const auto condition = [&] { return ready(*state_); };
    EXPECT_TRUE(state_->mutex.AwaitWithTimeout(absl::Condition(&condition), Patience()))
        << "the watch never saw it; it saw " << state_->events.size() << " events, end "
        << state_->end;
  }

  void AwaitSnapshot() const {
    Await([](const State& state) { return state.batches > 0; });
  }

  // Waits for a put of `key` whose value is `value`.
  void AwaitPut(absl::string_view key, absl::string_view value) const {
    Await([&](const State& state) {
      for (const WatchEvent& event : state.events) {
        if (event.kind == WatchEvent::Kind::kPut && event.entry.key == key &&
            event.entry.value == value) {
          return true;
        }
      }
      return false;
    });
  }

  // Waits until the session of `rank` is seen as `liveness` and gives its record.
  SessionRecord AwaitSession(int rank, SessionRecord::Liveness liveness) const {
    SessionRecord found;
    Await([&](const State& state) {
      for (const WatchEvent& event : state.events) {
        const auto record = SessionRecord::Decode(event.entry.value);
        if (!record.ok() || record->rank != rank || record->liveness != liveness) continue;
        found = *record;
        return true;
      }
      return false;
    });
    return found;
  }

  absl::Status AwaitEnd() const {
    Await([](const State& state) { return !state.end.ok(); });
    absl::MutexLock lock(&state_->mutex);
    return state_->end;
  }

  std::vector<WatchEvent> events() const {
    absl::MutexLock lock(&state_->mutex);
    return state_->events;
  }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Calls of a Store that wait for their answers.
inline absl::StatusOr<Entry> Get(Store& store, absl::string_view key) {
  PromisedOr<Entry> answer;
  store.Get(key, Soon(), answer.Callback());
  return answer.Get();
}

inline absl::StatusOr<Revision> Set(Store& store, absl::string_view key, absl::string_view value,
                                    Lifetime lifetime = Lifetime::kPersistent) {
  PromisedOr<Revision> answer;
  store.Set(key, value, lifetime, Soon(), answer.Callback());
  return answer.Get();
}

inline absl::StatusOr<CompareAndSetResult> CompareAndSet(
    Store& store, absl::string_view key, Revision expected, absl::string_view value,
    Lifetime lifetime = Lifetime::kPersistent) {
  PromisedOr<CompareAndSetResult> answer;
  store.CompareAndSet(key, expected, value, lifetime, Soon(), answer.Callback());
  return answer.Get();
}

inline absl::Status Delete(Store& store, absl::string_view key) {
  Promised<absl::Status> answer;
  store.Delete(key, Soon(), answer.Callback());
  return answer.Get();
}

inline absl::Status Leave(Store& store, absl::string_view reason = "") {
  Promised<absl::Status> answer;
  store.Leave(reason, Soon(), answer.Callback());
  return answer.Get();
}

inline PromisedOr<GatherResult> StartGather(Store& store, absl::string_view key, int rank, int size,
                                            absl::string_view value, absl::Time deadline = Soon()) {
  PromisedOr<GatherResult> answer;
  store.Gather(key, rank, size, value, deadline, answer.Callback());
  return answer;
}

inline PromisedOr<GatherResult> StartGatherAmong(Store& store, absl::string_view key,
                                                 const Gathering& among,
                                                 absl::string_view value = "",
                                                 absl::Time deadline = Soon()) {
  PromisedOr<GatherResult> answer;
  store.GatherAmong(key, among, value, deadline, answer.Callback());
  return answer;
}

}  // namespace muster::store_testing

#endif  // MUSTER_CORE_STORE_STORE_TEST_UTIL_H_

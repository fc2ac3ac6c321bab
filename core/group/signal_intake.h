// The signal that a process is told to stop by, handed from signal handlers to the one thread that
// waits for it. No signal is lost: either the thread has it, or its handler is told that nobody
// waits any more, however late it comes to ask.
//
//   SignalIntake intake;                                    // nobody waits
//   intake.Open();
//   ... in a handler:  if (intake.Arrive(signal, sender, now) == SignalIntake::Answer::kFirst) ...
//   ... the thread:    if (std::optional<SignalIntake::Taken> taken = intake.Close()) ...
#ifndef MUSTER_CORE_GROUP_SIGNAL_INTAKE_H_
#define MUSTER_CORE_GROUP_SIGNAL_INTAKE_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "muster/core/platform/same_request.h"

namespace muster {

// Thread-safe and async-signal-safe.
class SignalIntake {
 public:
  enum class Answer {
    kFirst,        // it is the thread's now: wake it
    kSameRequest,  // as the first one, moments ago: nothing to do
    kImpatience,   // another one, or later
    kNobodyWaits,
  };
  struct Taken {
    int signal = 0;
    pid_t sender = 0;  // 0: not known, such as the kernel or a terminal
  };

  constexpr SignalIntake() = default;

  // Of a handler. `now` in milliseconds of any clock that does not jump.
  Answer Arrive(int signal, pid_t sender, uint64_t now) {
    uint64_t seen = kNone;
    const uint64_t own = Pack(signal, sender, now);
    if (state_.compare_exchange_strong(seen, own)) return Answer::kFirst;
    if (seen == kClosed) return Answer::kNobodyWaits;
    const uint32_t passed = static_cast<uint32_t>(now) - static_cast<uint32_t>(seen >> kTimeShift);
    const bool same = (seen & kSignalMask) == static_cast<uint64_t>(signal);
    return same && passed < kSameRequestMilliseconds ? Answer::kSameRequest : Answer::kImpatience;
  }

  void Open() { state_.store(kNone); }
  bool open() const { return state_.load() != kClosed; }

  // The first signal, where one has come.
  std::optional<Taken> Look() const { return Unpack(state_.load()); }

  // The same, as the last look: where none has come, who comes later is told that nobody waits.
  std::optional<Taken> Close() {
    uint64_t seen = kNone;
    state_.compare_exchange_strong(seen, kClosed);
    return Unpack(seen);
  }

  // The first signal has been dealt with: nobody waits for another.
  void Shut() { state_.store(kClosed); }

 private:
  // Milliseconds in the upper half (what matters is half a second), the sender, the signal. Linux's
  // process ids have 22 bits.
  static constexpr uint64_t kSignalMask = 0xff;
  static constexpr int kSenderShift = 8;
  static constexpr uint64_t kSenderMask = 0xffffff;
  static constexpr int kTimeShift = 32;
  // There is no signal 0.
  static constexpr uint64_t kNone = 0;
  static constexpr uint64_t kClosed = 1 << kSenderShift;

  static uint64_t Pack(int signal, pid_t sender, uint64_t now) {
    const auto from = static_cast<uint64_t>(sender);
    return now << kTimeShift | (from <= kSenderMask ? from : 0) << kSenderShift |
           static_cast<uint64_t>(signal);
  }
  static std::optional<Taken> Unpack(uint64_t state) {
    if (state == kNone || state == kClosed) return std::nullopt;
    return Taken{static_cast<int>(state & kSignalMask),
                 static_cast<pid_t>(state >> kSenderShift & kSenderMask)};
  }

  std::atomic<uint64_t> state_{kClosed};
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "a handler takes no lock");

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_SIGNAL_INTAKE_H_

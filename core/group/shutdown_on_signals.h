// For programs that want a rank which is told to stop to say so: SIGTERM and SIGINT become an
// orderly abort of every pool of the process, and then do what they would have done without it.
//
//   int main() {
//     auto shutdown = muster::ShutdownOnSignals::Create();   // after handlers of your own
//     if (!shutdown.ok()) ...
//     auto pool = muster::GroupPool::FromEnvironment();
//
// The peers' error is then "rank 2 (host a, pid 7) was told to stop by signal 15 (Terminated)" in
// place of "rank 2 ... was lost". A program without handlers still dies of the signal, so a
// launcher sees 128 + 15; one with a handler has it called when the groups have ended.
//
// Why a handler that wakes a thread, and not a thread in sigwait: that takes a signal which every
// thread blocks. Threads that were there before would not, and die of it; programs that this one
// starts would inherit the blocked signals. The handler notes the signal and wakes the thread,
// which does all the rest.
#ifndef MUSTER_CORE_GROUP_SHUTDOWN_ON_SIGNALS_H_
#define MUSTER_CORE_GROUP_SHUTDOWN_ON_SIGNALS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/group/helper_thread.h"
#include "muster/core/platform/source_location.h"

namespace muster {

struct ShutdownOptions {
  // The most that the signal is held back for the aborts of all pools together, which go on at
  // once, whatever the pools' own bounds are. The default is more than that of a pool whose store
  // answers, and less than what launchers and schedulers wait before they kill.
  absl::Duration close_timeout = absl::Seconds(6);
};

// One a process at a time, best in main. While it lives:
//
// - SIGTERM and SIGINT have its handler, but for one that was ignored (nohup, a shell's background
//   job): that stays ignored. It never changes what is blocked: a signal that every thread blocks
//   is for whoever waits for it.
// - The first signal aborts all pools, on a thread of its own, within close_timeout. Then what the
//   program had for the two signals is put back, and the signal is sent to the process once more.
//   It works once: for later signals, make another one.
// - Whoever ends the process meanwhile, by return from main or exit(), because the groups are gone,
//   waits for that in the destructor or in exit(): the process ends of the signal, as without this.
//   An exit() in an Observer, which the aborts wait for, does not.
// - A second signal is for impatience: the program's own action, by default death, at once. The
//   same one again within 500 ms is the same request, as `timeout` and terminals make it. Who sent
//   the first one is in the log: a handler of the program with SA_SIGINFO sees this process.
// - A forked child has its parent's own actions: the first signal there takes the handler away.
//   What it executes starts with the default, as ever.
//
// A handler that is installed later takes this one's place for its signal; when it calls the one
// before, as it should, the groups are aborted after it. Python has its handler for SIGINT before
// any module is loaded, so a KeyboardInterrupt comes when the groups have ended; `signal.signal`
// later takes the place.
class ShutdownOnSignals {
 public:
  // InvalidArgument for a timeout that is not positive; FailedPrecondition where one lives already,
  // saying where that was made; ResourceExhausted where the system gives no thread.
  static absl::StatusOr<std::unique_ptr<ShutdownOnSignals>> Create(
      ShutdownOptions options = {}, SourceLocation where = SourceLocation::Current());

  // Puts back what the program had, where the handler is still this one's. Waits for a shutdown
  // that is under way, at most close_timeout. In a forked child it only does the first.
  ~ShutdownOnSignals();
  ShutdownOnSignals(const ShutdownOnSignals&) = delete;
  ShutdownOnSignals& operator=(const ShutdownOnSignals&) = delete;

 private:
  explicit ShutdownOnSignals(std::unique_ptr<HelperThread> thread);

  const uint64_t made_in_;  // ForkGeneration
  std::unique_ptr<HelperThread> thread_;
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_SHUTDOWN_ON_SIGNALS_H_

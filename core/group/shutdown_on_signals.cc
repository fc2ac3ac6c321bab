#include "muster/core/group/shutdown_on_signals.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11): for std::this_thread
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/debugging/leak_check.h"
#include "absl/log/log.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "muster/core/lifecycle/process_end.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/platform/fork_guard.h"

namespace muster {
namespace {

struct Signal {
  int number;
  const char* name;
};
constexpr Signal kSignals[] = {{SIGTERM, "Terminated"}, {SIGINT, "Interrupt"}};
constexpr int kCount = 2;

// As JobPolicy's of the launcher, for the same reason.
constexpr uint64_t kSameRequestMs = 500;

// All that a signal handler can reach. A process has one set of handlers, so there is one of these.
struct Taken {
  std::atomic<pid_t> owner{0};     // the process whose signals they are; 0: nobody's
  std::atomic<uint64_t> first{0};  // of the first signal: milliseconds << 8 | number; 0: none yet
  std::atomic<int> inside{0};      // handlers that run
  // Written before the handler is installed: what the program had, and whether that was replaced.
  struct sigaction before[kCount] = {};
  bool replaced[kCount] = {};
  sem_t wake = {};  // there is nothing else that a handler may wake a thread with, but for a pipe
};
Taken taken;

static_assert(std::atomic<pid_t>::is_always_lock_free, "a handler takes no lock");
static_assert(std::atomic<uint64_t>::is_always_lock_free, "the same");

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
bool finished ABSL_GUARDED_BY(mutex) = false;  // the thread: no signal will be sent any more
// Where the living one was made; leaked, as exit() may come at any time.
std::string* made_at ABSL_GUARDED_BY(mutex) = nullptr;

uint64_t Milliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

void OnSignal(int signal, siginfo_t*, void*);

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnSignal;
}

// Async-signal-safe, as all down to OnSignal. Puts back what the program had: for `signal` whatever
// stands there, for the others where the handler is ours.
void PutBack(int signal) {
  for (int i = 0; i < kCount; ++i) {
    if (!taken.replaced[i]) continue;
    const int number = kSignals[i].number;
    struct sigaction now = {};
    sigaction(number, nullptr, &now);
    if (number == signal || IsOurs(now)) sigaction(number, &taken.before[i], nullptr);
  }
}

bool ProgramHas(int signal, void (*handler)(int)) {
  for (int i = 0; i < kCount; ++i) {
    if (kSignals[i].number != signal) continue;
    struct sigaction now = {};
    sigaction(signal, nullptr, &now);
    return now.sa_handler == handler && !IsOurs(now);
  }
  return false;
}

// To whichever thread takes it, the main one first: so that what it waits in is interrupted, as by
// the signal itself.
void Resend(int signal) { kill(getpid(), signal); }

void Note(int signal) {
  const pid_t owner = taken.owner.load();
  if (owner == 0) {
    // It was on its way when the last one went, and the program has its own action back. Or a
    // handler that came later calls us still, after the end: it has had the signal.
    for (int i = 0; i < kCount; ++i) {
      if (kSignals[i].number == signal && ProgramHas(signal, taken.before[i].sa_handler)) {
        Resend(signal);
      }
    }
    return;
  }
  if (owner == getpid()) {
    const uint64_t now = Milliseconds();
    uint64_t first = 0;
    if (taken.first.compare_exchange_strong(first, now << 8 | static_cast<uint64_t>(signal))) {
      sem_post(&taken.wake);
      return;
    }
    if ((first & 0xff) == static_cast<uint64_t>(signal) && now - (first >> 8) < kSameRequestMs) {
      return;
    }
  }
  // Impatience; or a forked child, which has no thread to wake.
  PutBack(signal);
  Resend(signal);
}

void OnSignal(int signal, siginfo_t*, void*) {
  const int error = errno;
  taken.inside.fetch_add(1);
  Note(signal);
  taken.inside.fetch_sub(1);
  errno = error;
}

void AbortAllWithin(absl::Duration timeout, int signal) {
  const char* name = "";
  for (const Signal& known : kSignals) {
    if (known.number == signal) name = known.name;
  }
  const std::string what = absl::StrCat("signal ", signal, " (", name, ")");
  auto ended = std::make_shared<absl::Notification>();
  const auto abort_all = [why = absl::StrCat(kToldToStop, signal, " (", name, ")"), ended] {
    LivePools::Global().AbortAll(why);
    ended->Notify();
  };
  HelperThread helper;
  if (absl::Status started = helper.Start(abort_all); !started.ok()) {
    LOG(ERROR) << what << ": without a bound, as " << started.message();
    abort_all();
  }
  if (!ended->WaitForNotificationWithTimeout(timeout)) {
    LOG(ERROR) << what << ": the process's groups did not end within "
               << absl::FormatDuration(timeout) << "; it is held back no longer";
    helper.Abandon();
  }
}

// The thread.
void AwaitSignal(absl::Duration close_timeout) {
  pthread_setname_np(pthread_self(), "muster-signals");
  while (sem_wait(&taken.wake) != 0) {
  }
  if (const uint64_t first = taken.first.load(); first != 0) {
    const int signal = static_cast<int>(first & 0xff);
    AbortAllWithin(close_timeout, signal);
    PutBack(signal);
    if (ProgramHas(signal, SIG_DFL)) {
      // It ends the process, also when those who would take it block it by now.
      sigset_t only;
      sigemptyset(&only);
      sigaddset(&only, signal);
      pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    }
    Resend(signal);
  }
  absl::MutexLock lock(&mutex);
  finished = true;
}

// The groups are gone, so main may return: but the program is to end as it would have.
void AwaitShutdownAtExit() {
  if (taken.owner.load() != getpid() || taken.first.load() == 0) return;
  absl::MutexLock lock(&mutex);
  mutex.Await(absl::Condition(&finished));
}

void Install() {
  for (int i = 0; i < kCount; ++i) {
    sigaction(kSignals[i].number, nullptr, &taken.before[i]);
    taken.replaced[i] = taken.before[i].sa_handler != SIG_IGN;
  }
  taken.owner.store(getpid());
  struct sigaction ours = {};
  ours.sa_sigaction = OnSignal;
  // The program's calls go on, until its own action says otherwise.
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  for (const Signal& signal : kSignals) sigaddset(&ours.sa_mask, signal.number);
  for (int i = 0; i < kCount; ++i) {
    if (taken.replaced[i]) sigaction(kSignals[i].number, &ours, nullptr);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShutdownOnSignals>> ShutdownOnSignals::Create(
    ShutdownOptions options, SourceLocation where) {
  if (options.close_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("ShutdownOptions.close_timeout is ",
                                                   absl::FormatDuration(options.close_timeout),
                                                   ": it must be more than zero"));
  }
  absl::MutexLock lock(&mutex);
  if (taken.owner.load() == getpid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("ShutdownOnSignals at ", where.ToString(), ": the one made at ", *made_at,
                     " is still there, and a process has one; destroy that first"));
  }
  static const bool hooks_installed =
      std::atexit(AwaitShutdownAtExit) == 0 && std::at_quick_exit(AwaitShutdownAtExit) == 0;
  if (!hooks_installed) {
    LOG(ERROR) << "no room for an exit hook: when main returns during a shutdown by a signal, the "
                  "process ends of that return and not of the signal";
  }
  if (taken.owner.load() != 0) PutBack(0);  // a forked child has its parent's handler still
  taken.first.store(0);
  taken.inside.store(0);
  sem_init(&taken.wake, 0, 0);
  finished = false;
  // The thread inherits the mask: no handler of the program runs on it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto thread = std::make_unique<HelperThread>();
  absl::Status started =
      thread->Start([close_timeout = options.close_timeout] { AwaitSignal(close_timeout); });
  if (started.ok()) Install();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started.ok()) return started;
  if (made_at == nullptr) made_at = absl::IgnoreLeak(new std::string);
  *made_at = where.ToString();
  return absl::WrapUnique(new ShutdownOnSignals(std::move(thread)));
}

ShutdownOnSignals::ShutdownOnSignals(std::unique_ptr<HelperThread> thread)
    : made_in_(ForkGeneration()), thread_(std::move(thread)) {}

ShutdownOnSignals::~ShutdownOnSignals() {
  if (made_in_ != ForkGeneration()) {
    if (taken.owner.load() != getpid()) PutBack(0);  // the child has none of its own
    absl::IgnoreLeak(thread_.release());             // its thread is the parent's
    return;
  }
  PutBack(0);
  // A handler that has begun may still note a signal, which the thread then finds.
  while (taken.inside.load() != 0) std::this_thread::yield();
  sem_post(&taken.wake);
  thread_->Join();
  absl::MutexLock lock(&mutex);
  taken.owner.store(0);
}

}  // namespace muster

#include "muster/core/group/shutdown_on_signals.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
#include "absl/time/time.h"
#include "muster/core/group/signal_intake.h"
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

// Beyond close_timeout, for what follows it: the signal is sent, and the process ends of it.
constexpr absl::Duration kTimeToSend = absl::Seconds(1);

// What the program had for the signals, and whether that was replaced.
struct ProgramsActions {
  struct sigaction action[kCount];
  bool replaced[kCount];
};

// Global state, beside the two lists that a process has: a signal handler is given no object, and a
// process has one handler for each signal. All that a handler can reach stands here and is never
// freed, since one may run long after its ShutdownOnSignals has gone.
struct Reach {
  std::atomic<pid_t> owner{0};  // the process whose signals they are; 0: nobody's
  SignalIntake intake;
  std::atomic<bool> ending{false};                       // the thread is to look for the last time
  std::atomic<const ProgramsActions*> program{nullptr};  // set before the handler is installed
  sem_t wake = {};  // there is nothing else that a handler may wake a thread with, but for a pipe
};
Reach reach;

static_assert(std::atomic<pid_t>::is_always_lock_free, "a handler takes no lock");
static_assert(std::atomic<const ProgramsActions*>::is_always_lock_free, "the same");

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
bool finished ABSL_GUARDED_BY(mutex) = false;     // the thread: no signal will be sent any more
absl::Duration hold_back ABSL_GUARDED_BY(mutex);  // the living one's close_timeout
uint64_t wake_made_in ABSL_GUARDED_BY(mutex) = ~uint64_t{0};  // ForkGeneration
// Where the living one was made; leaked, as exit() may come at any time.
std::string* made_at ABSL_GUARDED_BY(mutex) = nullptr;
// Each that ever was: a late handler may read one of a ShutdownOnSignals long gone. A program has
// few, so this does not grow.
std::vector<std::unique_ptr<const ProgramsActions>>* all_actions ABSL_GUARDED_BY(mutex) = nullptr;

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
  const ProgramsActions& program = *reach.program.load();
  for (int i = 0; i < kCount; ++i) {
    if (!program.replaced[i]) continue;
    const int number = kSignals[i].number;
    struct sigaction now = {};
    sigaction(number, nullptr, &now);
    if (number == signal || IsOurs(now)) sigaction(number, &program.action[i], nullptr);
  }
}

struct sigaction ActionOf(int signal) {
  struct sigaction now = {};
  sigaction(signal, nullptr, &now);
  return now;
}

// To whichever thread takes it, the main one first: so that what it waits in is interrupted, as by
// the signal itself.
void Resend(int signal) { kill(getpid(), signal); }

bool SomebodyWaits() { return reach.owner.load() == getpid() && reach.intake.open(); }

// It was on its way when the last one went.
void ToTheProgram(int signal) {
  const struct sigaction now = ActionOf(signal);
  if (IsOurs(now)) {
    // The next one has come. Or the program has put this handler back, which it had found: then
    // nobody would ever take the signal.
    if (!SomebodyWaits()) PutBack(signal);
    return Resend(signal);
  }
  const ProgramsActions& program = *reach.program.load();
  for (int i = 0; i < kCount; ++i) {
    // Else a handler that came later calls us still, after the end: it has had the signal.
    const bool had = now.sa_handler == program.action[i].sa_handler;
    if (kSignals[i].number == signal && had) Resend(signal);
  }
}

void Note(int signal, pid_t sender) {
  const pid_t owner = reach.owner.load();
  if (owner == 0) return ToTheProgram(signal);
  if (owner == getpid()) {
    switch (reach.intake.Arrive(signal, sender, Milliseconds())) {
      case SignalIntake::Answer::kFirst:
        sem_post(&reach.wake);
        return;
      case SignalIntake::Answer::kSameRequest:
        return;
      case SignalIntake::Answer::kNobodyWaits:
        return ToTheProgram(signal);
      case SignalIntake::Answer::kImpatience:
        break;
    }
  }
  // Impatience; or a forked child, which has no thread to wake.
  PutBack(signal);
  Resend(signal);
}

// 0: not known. A handler that calls this one may give nothing.
pid_t SenderOf(const siginfo_t* info) {
  if (info == nullptr) return 0;
  const bool by_a_process =
      info->si_code == SI_USER || info->si_code == SI_TKILL || info->si_code == SI_QUEUE;
  return by_a_process ? info->si_pid : 0;
}

void OnSignal(int signal, siginfo_t* info, void*) {
  const int error = errno;
  Note(signal, SenderOf(info));
  errno = error;
}

void AbortAllWithin(absl::Duration timeout, const SignalIntake::Taken& taken) {
  const char* name = "";
  for (const Signal& known : kSignals) {
    if (known.number == taken.signal) name = known.name;
  }
  const std::string what = absl::StrCat("signal ", taken.signal, " (", name, ")");
  LOG(WARNING) << what << (taken.sender == 0 ? "" : absl::StrCat(" of process ", taken.sender))
               << ": the process's groups are aborted";
  auto ended = std::make_shared<absl::Notification>();
  const auto abort_all = [why = absl::StrCat(kToldToStop, taken.signal, " (", name, ")"), ended] {
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

// Nothing: there was no signal in the life of this one.
std::optional<SignalIntake::Taken> AwaitFirst() {
  while (true) {
    while (sem_wait(&reach.wake) != 0) {
    }
    // A late handler of the one before may have woken this thread.
    if (auto taken = reach.intake.Look(); taken.has_value()) return taken;
    if (reach.ending.load()) return reach.intake.Close();
  }
}

// The thread.
void AwaitSignal(absl::Duration close_timeout) {
  pthread_setname_np(pthread_self(), "muster-signals");
  if (const auto taken = AwaitFirst(); taken.has_value()) {
    const int signal = taken->signal;
    AbortAllWithin(close_timeout, *taken);
    PutBack(signal);
    const struct sigaction now = ActionOf(signal);
    if (now.sa_handler == SIG_DFL && !IsOurs(now)) {
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
  if (reach.owner.load() != getpid() || !reach.intake.Look().has_value()) return;
  // exit() in an observer, which an abort waits for.
  if (LivePools::Global().AbortNeedsThisThread()) return;
  absl::MutexLock lock(&mutex);
  mutex.AwaitWithTimeout(absl::Condition(&finished), hold_back + kTimeToSend);
}

bool Same(const ProgramsActions& one, const ProgramsActions& other) {
  for (int i = 0; i < kCount; ++i) {
    const struct sigaction& a = one.action[i];
    const struct sigaction& b = other.action[i];
    if (one.replaced[i] != other.replaced[i] || a.sa_flags != b.sa_flags ||
        a.sa_handler != b.sa_handler ||
        std::memcmp(&a.sa_mask, &b.sa_mask, sizeof(a.sa_mask)) != 0) {
      return false;
    }
  }
  return true;
}

const ProgramsActions* FindActions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  auto found = std::make_unique<ProgramsActions>();
  for (int i = 0; i < kCount; ++i) {
    sigaction(kSignals[i].number, nullptr, &found->action[i]);
    // Put back by the program, which had found it: it has none of its own for that signal since.
    if (IsOurs(found->action[i])) found->action[i] = reach.program.load()->action[i];
    found->replaced[i] = found->action[i].sa_handler != SIG_IGN;
  }
  if (all_actions == nullptr) {
    all_actions = absl::IgnoreLeak(new std::vector<std::unique_ptr<const ProgramsActions>>);
  }
  for (const auto& known : *all_actions) {
    if (Same(*known, *found)) return known.get();
  }
  all_actions->push_back(std::move(found));
  return all_actions->back().get();
}

void Install() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  const ProgramsActions* const program = FindActions();
  reach.program.store(program);
  reach.intake.Open();
  reach.owner.store(getpid());
  struct sigaction ours = {};
  ours.sa_sigaction = OnSignal;
  // The program's calls go on, until its own action says otherwise.
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  for (const Signal& signal : kSignals) sigaddset(&ours.sa_mask, signal.number);
  for (int i = 0; i < kCount; ++i) {
    if (program->replaced[i]) sigaction(kSignals[i].number, &ours, nullptr);
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
  if (reach.owner.load() == getpid()) {
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
  if (reach.owner.load() != 0) PutBack(0);  // a forked child has its parent's handler still
  // Once in a process: a late handler of the one before may be about to post.
  if (wake_made_in != ForkGeneration()) sem_init(&reach.wake, 0, 0);
  wake_made_in = ForkGeneration();
  reach.intake.Shut();
  reach.ending.store(false);
  finished = false;
  hold_back = options.close_timeout;
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
    if (reach.owner.load() != getpid()) PutBack(0);  // the child has none of its own
    absl::IgnoreLeak(thread_.release());             // its thread is the parent's
    return;
  }
  PutBack(0);
  // A handler that has begun may still note a signal, which the thread then finds; one that comes
  // too late for its last look gives the signal to what the program has now.
  reach.ending.store(true);
  sem_post(&reach.wake);
  thread_->Join();
  absl::MutexLock lock(&mutex);
  reach.intake.Shut();
  reach.owner.store(0);
}

}  // namespace muster

#include "muster/testing/contract/exit_rank.h"

#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>  // NOLINT(build/c++11): absl has no thread
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "muster/core/group.h"
#include "muster/core/lifecycle/state.h"
#include "muster/core/observe/observer.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/contract/held_backend.h"

namespace muster::testing {
namespace {

constexpr absl::string_view kMark = "--exit_rank";

absl::Duration Scaled(absl::Duration duration) { return TimeoutScale() * duration; }

// Beside the fifo, there once rank 0 is in `state`: of rendezvous, as who leaves before that may
// come again, for all it knows; of aborting, as it has heard of the cause by then.
std::string FileOf(const std::string& fifo, GroupState state) {
  return absl::StrCat(fifo, ".", Name(state));
}

class EndObserver final : public Observer {
 public:
  explicit EndObserver(std::string fifo) : fifo_(std::move(fifo)) {}
  void OnTransition(const TransitionEvent& event) override {
    if (event.rank == 0) {
      close(open(FileOf(fifo_, event.to).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    if (IsTerminal(event.to) && !ended_.HasBeenNotified()) ended_.Notify();
  }
  void AwaitEnd() { ended_.WaitForNotification(); }

 private:
  const std::string fifo_;
  absl::Notification ended_;
};

// All that a rank has. On the heap and never freed in rank 1: what ends there says its path.
struct Rank {
  Rank(const std::string& inner_backend, const std::string& its_fifo, HeldBackend::Hold hold)
      : fifo(its_fifo), observer(its_fifo) {
    absl::StatusOr<Backend*> inner = BackendRegistry::Global().Find(inner_backend);
    if (!inner.ok()) Die(inner.status());
    auto held = std::make_unique<HeldBackend>(*inner, hold);
    backend = held.get();
    backends.Register("held", std::move(held), __FILE__, __LINE__);
  }

  std::unique_ptr<GroupPool> MakePool(bool close_idle_groups = false) {
    PoolOptions options;
    options.close_timeout = Scaled(absl::Seconds(1));
    options.backends = &backends;
    options.observer = &observer;
    options.close_idle_groups = close_idle_groups;
    absl::StatusOr<std::unique_ptr<GroupPool>> made = GroupPool::FromEnvironment(options);
    if (!made.ok()) Die(made.status());
    return *std::move(made);
  }

  static GroupSpec Spec() {
    GroupSpec spec;
    spec.name = "train";
    spec.backend = "held";
    spec.setup_timeout = spec.operation_timeout = Scaled(absl::Seconds(30));
    spec.close_timeout = Scaled(absl::Seconds(1));
    // However slow the launcher is that knows how a process ended: no bound is tested here.
    spec.cause_window = Scaled(absl::Seconds(10));
    return spec;
  }

  absl::Status AllReduce() const {
    float value = 1;
    return (*lease)->AllReduce(Buffer::Of(value), ReduceOp::kSum);
  }

  [[noreturn]] static void Die(const absl::Status& why) {
    fprintf(stderr, "%s\n", why.ToString().c_str());
    _exit(99);
  }

  const std::string fifo;
  BackendRegistry backends;
  HeldBackend* backend = nullptr;
  EndObserver observer;
  std::unique_ptr<GroupPool> pool;
  std::unique_ptr<GroupLease> lease;
  float value = 1;
  Work work;
};

// --- the two that live on

int LiveOn(int number, const std::string& state, const std::string& backend,
           const std::string& fifo) {
  const ProcessHoldings before = ProcessHoldings::Now();
  absl::Status ended;
  {
    Rank rank(backend, fifo,
              number == 2 && state == "connecting" ? HeldBackend::Hold::kConnect
                                                   : HeldBackend::Hold::kNothing);
    rank.pool = rank.MakePool();
    absl::StatusOr<GroupLease> lease = absl::OutOfRangeError("it never began");
    const bool meets = state != "rendezvous" && state != "joined";
    if (!meets && number == 2) {
      close(open(fifo.c_str(), O_RDONLY));
    } else {
      lease = rank.pool->Acquire(Rank::Spec());
    }
    if (lease.ok()) {
      rank.lease = std::make_unique<GroupLease>(*std::move(lease));
      if (state == "working") {
        while (rank.AllReduce().ok()) {
        }
      } else if (number == 0 && (state == "collective" || state == "draining")) {
        rank.AllReduce().IgnoreError();
      } else if (number == 0 && state == "closing") {
        rank.lease->Close(Scaled(absl::Seconds(30))).IgnoreError();
      } else {
        rank.observer.AwaitEnd();
      }
      ended = rank.lease->Close();
      rank.lease.reset();
    } else {
      ended = lease.status();
    }
    if (!meets && number == 0) close(open(fifo.c_str(), O_WRONLY));
    rank.pool->Close(Scaled(absl::Seconds(5))).IgnoreError();
    rank.pool.reset();
  }
  printf("ended: %s\n", ended.ok() ? "destroyed" : std::string(ended.message()).c_str());
  printf("left: %s\n",
         ProcessHoldings::Beyond(before, Scaled(absl::Seconds(2))).ToString().c_str());
  return 0;
}

// --- the one that ends

Rank* one = nullptr;
std::unique_ptr<ShutdownOnSignals> shutdown_on_signals;

void AwaitState(GroupState state) {
  while (true) {
    const std::vector<LiveGroup> groups = one->pool->LiveGroups();
    if (!groups.empty() && groups[0].state == state) return;
    usleep(200);  // another process brings it about, which has no way to say so
  }
}

void AwaitRankZeroIn(GroupState state) {
  while (access(FileOf(one->fifo, state).c_str(), F_OK) != 0) usleep(200);
}

void Acquire() {
  absl::StatusOr<GroupLease> lease = one->pool->Acquire(Rank::Spec());
  if (!lease.ok()) Rank::Die(lease.status());
  one->lease = std::make_unique<GroupLease>(*std::move(lease));
}

void OnThread(std::function<void()> body) { std::thread(std::move(body)).detach(); }

void BeginOperation() {
  one->work = (*one->lease)->AllReduceAsync(Buffer::Of(one->value), ReduceOp::kSum);
  one->backend->AwaitOperation();
}

const std::vector<std::pair<std::string, std::function<void()>>>& States() {
  static const auto* const states = new std::vector<std::pair<std::string, std::function<void()>>>{
      // Has not come to the group that the others wait for.
      {"joined", [] { AwaitRankZeroIn(GroupState::kRendezvous); }},
      {"rendezvous",
       [] {
         OnThread([] { one->pool->Acquire(Rank::Spec()).status().IgnoreError(); });
         AwaitState(GroupState::kRendezvous);
         AwaitRankZeroIn(GroupState::kRendezvous);
       }},
      {"connecting",
       [] {
         OnThread([] { one->pool->Acquire(Rank::Spec()).status().IgnoreError(); });
         AwaitState(GroupState::kConnecting);
       }},
      {"ready", Acquire},
      {"collective",
       [] {
         Acquire();
         OnThread([] { one->AllReduce().IgnoreError(); });
         one->backend->AwaitOperation();
       }},
      {"draining",
       [] {
         Acquire();
         BeginOperation();
         OnThread([] { one->lease->Close(absl::Hours(1)).IgnoreError(); });
         AwaitState(GroupState::kDraining);
       }},
      {"closing",
       [] {
         Acquire();
         AwaitState(GroupState::kClosing);
       }},
      {"aborting",
       [] {
         Acquire();
         OnThread([] { one->lease->Abort(absl::CancelledError("enough")); });
         AwaitState(GroupState::kAborting);
         AwaitRankZeroIn(GroupState::kAborting);
         std::atexit([] { one->backend->LetGo(); });  // before the pool's hook
       }},
  };
  return *states;
}

HeldBackend::Hold HoldFor(absl::string_view state) {
  if (state == "closing") return HeldBackend::Hold::kFinalize;
  if (state == "aborting") return HeldBackend::Hold::kAbort;
  return HeldBackend::Hold::kNothing;
}

void InstallShutdown() {
  absl::StatusOr<std::unique_ptr<ShutdownOnSignals>> made = ShutdownOnSignals::Create();
  if (!made.ok()) Rank::Die(made.status());
  shutdown_on_signals = *std::move(made);
}

[[noreturn]] void WaitForEver() {
  while (true) pause();
}

// The handler may run on any thread, and before the wait for it.
sem_t told;

// Before the state is reached, and then; the process's exit code where it comes back.
struct Path {
  std::function<void()> before;
  std::function<int()> then;
};

Path Signalled(int signal, bool shutdown, void (*handler)(int)) {
  Path path;
  path.before = [=] {
    sem_init(&told, 0, 0);
    if (handler != nullptr) ::signal(signal, handler);
    if (shutdown) InstallShutdown();
  };
  path.then = [=] {
    kill(getpid(), signal);
    while (sem_wait(&told) != 0) {
    }
    return 6;
  };
  return path;
}

void ExitHandler(int) { _exit(5); }
void TellHandler(int) { sem_post(&told); }

// The child of a fork ends like any program.
int ForkAndGoOn(bool executes) {
  const pid_t child = fork();
  if (child == 0) {
    if (executes) execl("/bin/true", "true", nullptr);
    exit(one->pool->Acquire(Rank::Spec()).ok() ? 1 : 0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return 98;
  for (int i = 0; i < 3; ++i) {
    if (absl::Status reduced = one->AllReduce(); !reduced.ok()) Rank::Die(reduced);
  }
  one->lease->Close().IgnoreError();  // the others are in the next one already
  one->lease.reset();
  one->pool.reset();
  return 0;
}

int DieBeforeChild() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) abort();
  if (fork() == 0) {
    close(fds[1]);
    char byte;
    (void)!read(fds[0], &byte, 1);  // the parent's end
    exit(0);
  }
  raise(SIGKILL);
  return 97;
}

void Unwind() {
  try {
    const GroupLease mine = std::move(*one->lease);
    throw std::runtime_error("label 17 out of range");
  } catch (const std::runtime_error& error) {
    if (error.what() == nullptr) abort();  // as a program would, it looks at it and goes on
  }
}

int EndLastLeaseOnThread() {
  std::thread thread([] {
    thread_local GroupLease mine;
    mine = std::move(*one->lease);
  });
  thread.join();
  one->pool.reset();
  return 0;
}

// Destroyed in reverse: the pool, and then a lease that has outlived it.
int LeaveInStatics() {
  static GroupLease lease;
  static std::unique_ptr<GroupPool> pool;
  lease = std::move(*one->lease);
  pool = std::move(one->pool);
  return 0;
}

int LeaveInThreadLocal() {
  static std::unique_ptr<GroupPool> pool;
  thread_local GroupLease lease;
  lease = std::move(*one->lease);
  pool = std::move(one->pool);
  return 0;
}

const std::map<std::string, Path>& Paths() {
  static const auto* const paths = new std::map<std::string, Path>{
      {"return", {nullptr, [] { return 3; }}},
      {"exit", {nullptr, []() -> int { exit(3); }}},
      {"exit_on_thread",
       {nullptr,
        []() -> int {
          OnThread([] { exit(3); });
          WaitForEver();
        }}},
      {"quick_exit", {nullptr, []() -> int { quick_exit(3); }}},
      {"_exit", {nullptr, []() -> int { _exit(3); }}},
      {"abort", {nullptr, []() -> int { abort(); }}},
      {"throw", {nullptr, []() -> int { throw std::runtime_error("the disk is on fire"); }}},
      {"destroy_pool",
       {nullptr,
        [] {
          one->pool.reset();
          return 3;
        }}},
      {"sigterm", Signalled(SIGTERM, false, nullptr)},
      {"sigint", Signalled(SIGINT, false, nullptr)},
      {"sigterm_shutdown", Signalled(SIGTERM, true, nullptr)},
      {"sigint_shutdown", Signalled(SIGINT, true, nullptr)},
      {"sigterm_handler_exits", Signalled(SIGTERM, false, ExitHandler)},
      {"sigterm_handler_exits_shutdown", Signalled(SIGTERM, true, ExitHandler)},
      {"sigint_handler_returns", Signalled(SIGINT, false, TellHandler)},
      {"sigint_handler_returns_shutdown", Signalled(SIGINT, true, TellHandler)},
      {"fork", {nullptr, [] { return ForkAndGoOn(false); }}},
      {"fork_exec", {nullptr, [] { return ForkAndGoOn(true); }}},
      {"die_before_child", {nullptr, DieBeforeChild}},
      {"unwind",
       {nullptr,
        [] {
          Unwind();
          one->pool.reset();
          return 0;
        }}},
      {"last_lease_on_thread", {nullptr, EndLastLeaseOnThread}},
      {"statics", {nullptr, LeaveInStatics}},
      {"thread_local", {nullptr, LeaveInThreadLocal}},
  };
  return *paths;
}

int End(const std::string& state, const std::string& path_name, const std::string& backend,
        const std::string& fifo) {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const auto path = Paths().find(path_name);
  if (path == Paths().end()) return 95;
  one = new Rank(backend, fifo, HoldFor(state));
  if (path->second.before != nullptr) path->second.before();
  one->pool = one->MakePool(/*close_idle_groups=*/path_name == "last_lease_on_thread");
  for (const auto& [name, reach] : States()) {
    if (name == state || (name == "ready" && state == "working")) reach();
  }
  return path->second.then();
}

}  // namespace

const std::vector<std::string>& ExitStates() {
  static const auto* const names = [] {
    auto* all = new std::vector<std::string>;
    for (const auto& [name, reach] : States()) all->push_back(name);
    return all;
  }();
  return *names;
}

std::vector<std::string> ExitRankCommand(const std::string& state, const std::string& path,
                                         const std::string& backend, const std::string& fifo) {
  return {"/proc/self/exe", std::string(kMark), state, path, backend, fifo};
}

bool IsExitRank(int argc, char** argv) { return argc == 6 && argv[1] == kMark; }

int ExitRankMain(char** argv) {
  const char* const rank = getenv("MUSTER_RANK");
  if (rank == nullptr) return 96;
  const int number = atoi(rank);  // NOLINT: the launcher's
  return number == kExits ? End(argv[2], argv[3], argv[4], argv[5])
                          : LiveOn(number, argv[2], argv[4], argv[5]);
}

}  // namespace muster::testing

#include "muster/testing/contract/fault_rank.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>  // NOLINT(build/c++11): the clock that processes share
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>  // NOLINT(build/c++11): absl has no thread
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "muster/core/group.h"
#include "muster/core/lifecycle/state.h"
#include "muster/core/observe/observer.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/testing/contract/cut_network.h"
#include "muster/testing/contract/fault_row.h"
#include "muster/testing/contract/held_backend.h"

namespace muster::testing {
namespace {

constexpr absl::string_view kMark = "--fault_rank";

// In one piece, from any thread.
void Say(absl::string_view what) {
  const std::string line =
      absl::StrCat("@", absl::StrReplaceAll(what, {{"\n", " "}, {"\r", " "}}), "\n");
  (void)!write(STDOUT_FILENO, line.data(), line.size());
}

class Rank final : public Observer {
 public:
  Rank(const FaultCell& cell, int number, const std::string& folder)
      : cell_(cell),
        timeouts_(TimeoutsOf(cell)),
        number_(number),
        fifo_(open(FifoOf(folder, number).c_str(), O_RDONLY | O_CLOEXEC)),
        before_(ProcessHoldings::Now()) {
    absl::StatusOr<Backend*> inner = BackendRegistry::Global().Find(cell.backend);
    if (!inner.ok()) Die(inner.status());
    backends_.Register("held",
                       std::make_unique<HeldBackend>(
                           *inner, HoldHere(), [this](HeldBackend::Hold step) { OnStep(step); }),
                       __FILE__, __LINE__);
  }

  int Run() {
    if (victim() && cell_.fault == Fault::kNeverStarted) {
      SayInPlace();
      AwaitByte();
      return 0;
    }
    PoolOptions options;
    options.close_timeout = timeouts_.close;
    options.heartbeat_timeout = timeouts_.heartbeat;
    options.backends = &backends_;
    options.observer = this;
    absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::FromEnvironment(options);
    if (!pool.ok()) Die(pool.status());
    pool_ = *std::move(pool);
    if (victim()) {
      BeVictim();
    } else {
      BeSurvivor();
    }
    End();
    return 0;
  }

  void OnTransition(const TransitionEvent& event) override {
    const bool over = IsTerminal(event.to);
    if (over || event.to == GroupState::kAborting) SayOnce(&known_, "known");
    if (over) SayOnce(&terminal_, "terminal");
    if (over && !ended_.HasBeenNotified()) ended_.Notify();
    if (event.to == GroupState::kRendezvous && cell_.phase == Phase::kRendezvous) SayInPlace();
    if (event.to == GroupState::kDraining && cell_.phase == Phase::kDraining) SayInPlace();
    // Who is not held in it may be through at once.
    if (event.to == GroupState::kClosing && cell_.phase == Phase::kClosing && !victim()) {
      SayInPlace();
    }
  }

 private:
  using Hold = HeldBackend::Hold;

  bool victim() const { return number_ == cell_.victim(); }

  Hold HoldHere() const {
    if (!victim()) return Hold::kNothing;
    switch (cell_.phase) {
      case Phase::kConnecting:
        return cell_.n < 4 ? Hold::kConnect : Hold::kConnected;
      case Phase::kCollective:
        return cell_.n < 4 && cell_.fault != Fault::kStuck ? Hold::kOperation : Hold::kNothing;
      case Phase::kDraining:
        return Hold::kOperation;
      case Phase::kClosing:
        return Hold::kFinalize;
      default:
        return Hold::kNothing;
    }
  }

  void OnStep(Hold step) {
    if (cell_.phase == Phase::kConnecting) {
      // With four the victim goes through all of it first, and the others must be there, too.
      const Hold here = victim() && cell_.n >= 4 ? Hold::kConnected : Hold::kConnect;
      if (step == here) SayInPlace();
    }
    if (cell_.phase == Phase::kCollective && step == Hold::kOperation) SayInPlace();
    if (cell_.phase == Phase::kClosing && step == Hold::kFinalize) SayInPlace();
  }

  GroupSpec Spec() const {
    GroupSpec spec;
    spec.name = "train";
    spec.backend = "held";
    spec.setup_timeout = timeouts_.setup;
    spec.operation_timeout = timeouts_.operation;
    spec.close_timeout = timeouts_.close;
    spec.cause_window = timeouts_.cause_window;
    return spec;
  }

  // The cause stays where it fails.
  bool Acquire() {
    absl::StatusOr<GroupLease> lease = pool_->Acquire(Spec());
    if (!lease.ok()) {
      failed_ = lease.status();
      return false;
    }
    lease_ = std::make_unique<GroupLease>(*std::move(lease));
    return true;
  }

  void AllReduce() {
    std::vector<float> values(1 << 16, 1);
    (*lease_)->AllReduce(Buffer::Of(absl::MakeSpan(values)), ReduceOp::kSum).IgnoreError();
  }

  void BeginAllReduce() {
    work_ = (*lease_)->AllReduceAsync(Buffer::Of(absl::MakeSpan(values_)), ReduceOp::kSum);
  }

  void Close() { lease_->Close(timeouts_.close).IgnoreError(); }

  // Until rank 0 says that it is enough.
  void Work() {
    std::atomic<bool> told = false;
    std::thread listener;
    if (number_ == 0) {
      listener = std::thread([&] {
        AwaitByte();
        told = true;
      });
    }
    for (int64_t i = 1;; ++i) {
      float enough = told ? 1 : 0;
      if (!(*lease_)->AllReduce(Buffer::Of(enough), ReduceOp::kSum).ok() || enough > 0) break;
      if (i == 3) SayInPlace();
    }
    if (listener.joinable()) listener.join();
  }

  void BeSurvivor() {
    if (number_ == cell_.latecomer()) {
      SayInPlace();
      AwaitByte();
      return;
    }
    if (!Acquire()) return;
    if (number_ == 0) Misbehave();
    if (cell_.phase == Phase::kReady) SayInPlace();
    if (cell_.phase == Phase::kWorking) {
      Work();
      Close();
    } else if (number_ == 0 && cell_.phase == Phase::kReady && cell_.fault == Fault::kStuck) {
      AwaitByte();
      Close();
    } else if (number_ == 0 && cell_.planted == Planted::kWrongBlame) {
      SayInPlace();
      AwaitByte();
      lease_->Abort(absl::DataLossError("label 17 out of range"));
    } else if (number_ == cell_.outsider()) {
      SayInPlace();
    } else if (number_ == 0 && cell_.phase == Phase::kClosing) {
      Close();
    } else if (cell_.phase == Phase::kDraining && number_ == 0 && Closer() == 0) {
      BeginAllReduce();
      Close();
    } else if (cell_.phase == Phase::kCollective || cell_.phase == Phase::kDraining) {
      AllReduce();
    }
    ended_.WaitForNotification();
  }

  // Who closes while an operation is in flight.
  int Closer() const { return cell_.n < 4 && cell_.fault != Fault::kStuck ? cell_.victim() : 0; }

  void BeVictim() {
    const bool in_user_code = cell_.fault == Fault::kStuck && cell_.phase != Phase::kConnecting;
    if (cell_.phase == Phase::kRendezvous) {
      if (in_user_code || cell_.n < 4) {
        SayInPlace();  // on its way
      } else {
        OnThread([this] { Acquire(); });
      }
    } else if (cell_.phase == Phase::kConnecting) {
      OnThread([this] { Acquire(); });
    } else if (!Acquire()) {
      return;
    } else if (cell_.phase == Phase::kWorking) {
      OnThread([this] { Work(); });
    } else if (cell_.phase == Phase::kReady ||
               (in_user_code && cell_.phase == Phase::kCollective)) {
      SayInPlace();
    } else if (cell_.phase == Phase::kCollective) {
      BeginAllReduce();
    } else if (cell_.phase == Phase::kDraining && !in_user_code) {
      BeginAllReduce();
      if (Closer() == number_) OnThread([this] { Close(); });
    }
    if (AwaitByte() == kStrike) Fail();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    // It comes to itself, and sees what became of its group.
    if (lease_ != nullptr) {
      if (cell_.phase == Phase::kWorking) Close();
      ended_.WaitForNotification();
    } else if (cell_.phase == Phase::kRendezvous && cell_.fault == Fault::kPartition) {
      Acquire();
    }
  }

  void Fail() {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    switch (cell_.fault) {
      case Fault::kExit:
        if (cell_.n >= 4) _exit(0);
        exit(0);
      case Fault::kThrow:
        if (cell_.n >= 4 && lease_ != nullptr && cell_.phase != Phase::kClosing) Unwind();
        throw std::runtime_error("label 17 out of range");
      default:
        AwaitByte();  // stuck
    }
  }

  // As main does that catches.
  [[noreturn]] void Unwind() {
    try {
      const std::unique_ptr<GroupPool> pool = std::move(pool_);
      const std::unique_ptr<GroupLease> mine = std::move(lease_);
      throw std::runtime_error("label 17 out of range");
    } catch (const std::runtime_error&) {
    }
    work_ = muster::Work();
    exit(1);
  }

  void End() {
    absl::Status ended = failed_;
    const bool began = lease_ != nullptr || !failed_.ok();
    if (lease_ != nullptr) ended = lease_->Close();
    work_ = muster::Work();
    lease_.reset();
    pool_->Close(timeouts_.close).IgnoreError();
    pool_.reset();
    Say(absl::StrCat("ended ", !began       ? RankReport::kNeverBegan
                               : ended.ok() ? RankReport::kDestroyed
                                            : ended.ToString()));
    Say(absl::StrCat("left ", ProcessHoldings::Beyond(before_, timeouts_.cause_window).ToString()));
  }

  // A planted mistake of this process.
  void Misbehave() {
    if (cell_.planted == Planted::kLeakedFd) (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (cell_.planted == Planted::kLeakedThread) {
      std::thread([] {
        while (true) pause();
      }).detach();
    }
    if (cell_.planted == Planted::kLeakedProcess && fork() == 0) {
      execl("/bin/sleep", "sleep", "1000", nullptr);
      _exit(1);
    }
  }

  void OnThread(std::function<void()> body) { threads_.emplace_back(std::move(body)); }

  void SayInPlace() {
    if (!in_place_.exchange(true)) Say(absl::StrCat("in_place ", getpid()));
  }

  static void SayOnce(std::atomic<bool>* said, absl::string_view what) {
    if (!said->exchange(true)) Say(absl::StrCat(what, " ", HostNanoseconds()));
  }

  char AwaitByte() {
    char byte = 0;
    while (read(fifo_, &byte, 1) != 1) {
    }
    return byte;
  }

  [[noreturn]] static void Die(const absl::Status& why) {
    fprintf(stderr, "%s\n", why.ToString().c_str());
    _exit(99);
  }

  const FaultCell cell_;
  const FaultTimeouts timeouts_;
  const int number_;
  const int fifo_;
  const ProcessHoldings before_;
  BackendRegistry backends_;
  std::atomic<bool> in_place_ = false;
  std::atomic<bool> known_ = false;
  std::atomic<bool> terminal_ = false;
  absl::Notification ended_;
  std::vector<float> values_ = std::vector<float>(1 << 16, 1);
  std::unique_ptr<GroupPool> pool_;
  std::unique_ptr<GroupLease> lease_;
  muster::Work work_;
  absl::Status failed_;
  std::vector<std::thread> threads_;
};

}  // namespace

int64_t HostNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string FifoOf(const std::string& folder, int rank) {
  return absl::StrCat(folder, "/go.", rank);
}

std::vector<std::string> FaultRankCommand(const FaultCell& cell, const std::string& folder) {
  return {"/proc/self/exe", std::string(kMark), cell.Name(), folder};
}

bool IsFaultRank(int argc, char** argv) { return argc == 4 && argv[1] == kMark; }

int FaultRankMain(char** argv) {
  const std::optional<FaultCell> cell = FaultCell::Parse(argv[2]);
  const char* const rank = getenv("MUSTER_RANK");
  if (!cell.has_value() || rank == nullptr) return 96;
  if (absl::Status entered = EnterNetworkOfRank(); !entered.ok()) {
    fprintf(stderr, "%s\n", entered.ToString().c_str());
    return 97;
  }
  // On the heap and never freed: what ends the process must not run its destructor.
  auto* const one = new Rank(*cell, atoi(rank), argv[3]);  // NOLINT: the launcher's number
  return one->Run();
}

}  // namespace muster::testing

#include "muster/core/lifecycle/simulation/simulation.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "muster/core/lifecycle/simulation/process.h"
#include "muster/core/lifecycle/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr absl::Duration kLongestReboot = absl::Milliseconds(500);

class Job {
 public:
  explicit Job(const SimulationOptions& options)
      : world_(options.seed, options.mutation, options.journal), ranks_(world_.scenario.size) {}

  void Run() {
    const absl::Time start = world_.executor.Now();
    for (int rank = 0; rank < world_.scenario.size; ++rank) {
      Later(world_.random.Between(absl::ZeroDuration(), absl::Milliseconds(50)),
            [this, rank] { Boot(rank); });
    }
    Watch();
    MakeTrouble();
    RunUntil(start + world_.scenario.chaos, [] { return false; });

    Calm();
    const absl::Time calm = world_.executor.Now();
    RunUntil(calm + RecoveryBound(), [this] { return recovered_; });
    if (!recovered_) {
      world_.checker.Violate(
          "L7: nothing goes wrong any more, and still no group works on all ranks");
    }
    world_.checker.tally().slowest_recovery = world_.executor.Now() - calm;

    world_.over = true;
    for (const auto& process : ranks_) {
      if (process != nullptr) process->CloseAll();
    }
    RunUntil(world_.executor.Now() + RecoveryBound(), [this] {
      return std::none_of(ranks_.begin(), ranks_.end(), [](const auto& process) {
        return process != nullptr && process->busy();
      });
    });
    Settle();
  }

  SimulationResult Result() {
    SimulationResult result;
    result.violation = world_.checker.violation();
    result.schedule = absl::StrJoin(world_.journal.lines(), "\n");
    result.tally = world_.checker.tally();
    return result;
  }

 private:
  void Later(absl::Duration delay, std::function<void()> task) {
    world_.executor.PostAt(world_.executor.Now() + delay, std::move(task));
  }

  template <class Done>
  void RunUntil(absl::Time limit, Done done) {
    while (world_.checker.violation().empty() && !done()) {
      const absl::Time next = world_.executor.NextTimer();
      if (next > limit) break;
      world_.executor.AdvanceTo(next);
    }
  }

  // A dead rank is found by its silence and started again; a rank that waited for it tries again;
  // what was broken before is aborted.
  absl::Duration RecoveryBound() const {
    const Scenario& scenario = world_.scenario;
    return 2 * scenario.heartbeat_timeout + kLongestReboot +
           2 * (scenario.setup_timeout + scenario.close_timeout + 2 * scenario.cause_window);
  }

  void Boot(int rank) {
    if (world_.over) return;
    auto process = std::make_shared<Process>(&world_, rank, 1 + world_.random.Below(1u << 30),
                                             [this](const Attempt& attempt) { OnEnded(attempt); });
    if (absl::Status status = process->Begin(); !status.ok()) {
      // The process before is not known to be dead yet.
      Later(absl::Milliseconds(20), [this, rank] { Boot(rank); });
      return;
    }
    ranks_[rank] = process;
    all_.push_back(std::move(process));
  }

  void Watch() {
    for (const auto& process : ranks_) {
      if (process != nullptr) process->CheckBounds();
      // A process without a store is of no use to anybody: another one takes its place.
      if (process != nullptr && !process->dead() && process->spent() && !world_.over) {
        Replace(*process);
      }
    }
    Later(absl::Milliseconds(20), [this] { Watch(); });
  }

  void Replace(Process& process) {
    process.Exit();
    BootLater(process.rank());
  }

  void BootLater(int rank) {
    Later(world_.random.Between(absl::Milliseconds(10), kLongestReboot),
          [this, rank] { Boot(rank); });
  }

  void MakeTrouble() {
    if (world_.calm) return;
    const int rank = static_cast<int>(world_.random.Below(ranks_.size()));
    if (Process* const process = ranks_[rank].get(); process != nullptr && !process->dead()) {
      if (world_.Trouble(150)) {
        process->Kill();
        BootLater(rank);
      } else if (world_.Trouble(60)) {
        process->Exit();
        BootLater(rank);
      } else if (world_.Trouble(60)) {
        process->LoseStore();
      } else if (world_.Trouble(150)) {
        process->Pause(world_.random.Between(absl::Milliseconds(5),
                                             world_.random.Chance(50)
                                                 ? absl::Milliseconds(100)
                                                 : 2 * world_.scenario.heartbeat_timeout));
      }
    }
    Later(world_.random.Between(absl::Milliseconds(20), absl::Milliseconds(400)),
          [this] { MakeTrouble(); });
  }

  void Calm() {
    world_.journal.Write(world_.executor.Now(), -1, "--- from now on nothing goes wrong");
    world_.calm = true;
    world_.checker.OnCalm();
    world_.store.CalmDown();
    world_.fabric.CalmDown();
    for (const auto& process : ranks_) {
      if (process == nullptr) continue;
      process->Resume();
      process->CloseAll();
    }
  }

  void OnEnded(const Attempt& attempt) {
    const Life& life = attempt.life();
    if (life.state != GroupState::kDestroyed || life.generation == 0 || !attempt.is_calm()) return;
    if (++clean_[life.generation] == world_.scenario.size) recovered_ = true;
  }

  // All groups have ended and their last messages have arrived. The sessions live on, so what is
  // gone was taken back, not swept away.
  void Settle() {
    for (const auto& process : all_) process->Report(world_.checker);
    world_.checker.CheckCauses();
    RunUntil(world_.executor.Now() + 4 * world_.scenario.max_delay, [] { return false; });
    CheckStore();
    for (const auto& process : ranks_) {
      if (process != nullptr) process->Leave();
    }
    RunUntil(world_.executor.Now() + 4 * world_.scenario.heartbeat_timeout, [] { return false; });
    CheckStore();
  }

  // Nothing of any generation but the record.
  void CheckStore() {
    const store_internal::StoreEngine& engine = world_.store.engine();
    if (engine.waiting_gathers() != 0) {
      world_.checker.Violate(absl::StrCat("L2: ", engine.waiting_gathers(),
                                          " gathers wait in the store for groups that have ended"));
    }
    if (engine.keys() > ranks_.size() + 1) {
      world_.checker.Violate(absl::StrCat("L8: ", engine.keys(), " keys are left in the store: ",
                                          ranks_.size(), " sessions and one record are allowed"));
    }
  }

  World world_;
  std::vector<std::shared_ptr<Process>> ranks_;  // the latest of each
  std::vector<std::shared_ptr<Process>> all_;
  std::map<int64_t, int> clean_;  // ranks on which a calm generation was destroyed in order
  bool recovered_ = false;
};

}  // namespace

SimulationResult Simulate(const SimulationOptions& options) {
  Job job(options);
  job.Run();
  return job.Result();
}

}  // namespace muster::simulation

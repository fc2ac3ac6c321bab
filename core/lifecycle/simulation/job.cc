#include "muster/core/lifecycle/simulation/job.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster::simulation {
namespace {

constexpr absl::Duration kLongestReboot = absl::Milliseconds(500);

}  // namespace

void Job::Run() {
  const absl::Time start = world_.executor->Now();
  world_.checker.tally().schedules = 1;
  world_.checker.tally().largest = world_.scenario.size;
  for (int rank = 0; rank < world_.scenario.size; ++rank) {
    world_.schedule->Add({Lane::Kind::kFate, rank, 0},
                         world_.chooser->Between(absl::ZeroDuration(), absl::Milliseconds(50)),
                         [this, rank] { Boot(rank); });
  }
  Watch();
  world_.scenario.chosen ? PlanFates() : MakeTrouble();
  RunUntil(start + world_.scenario.chaos, [] { return false; });

  Calm();
  const absl::Time calm = world_.executor->Now();
  const auto recovered = [this] {
    return recovered_.size() == static_cast<size_t>(world_.scenario.names);
  };
  RunUntil(calm + RecoveryBound(), recovered);
  if (!recovered()) {
    world_.checker.Violate(
        "L7: nothing goes wrong any more, and still no group works on all ranks");
  }
  world_.checker.tally().slowest_recovery = world_.executor->Now() - calm;

  world_.over = true;
  for (const auto& process : ranks_) {
    if (process != nullptr) process->CloseAll();
  }
  RunUntil(world_.executor->Now() + RecoveryBound(), [this] {
    return std::none_of(ranks_.begin(), ranks_.end(),
                        [](const auto& process) { return process != nullptr && process->busy(); });
  });
  Settle();
}

void Job::RunUntil(absl::Time limit, const std::function<bool()>& done) {
  world_.schedule->RunUntil(limit, [this, &done] { return Violated() || done(); });
}

// A dead rank is found by its silence and started again; a rank that waited for it tries again;
// what was broken before is aborted. Each name takes its turn.
absl::Duration Job::RecoveryBound() const {
  const Scenario& scenario = world_.scenario;
  const absl::Duration heartbeat = std::min(scenario.heartbeat_timeout, absl::Seconds(1));
  return 2 * heartbeat + kLongestReboot + scenario.operation_timeout +
         (1 + scenario.names) *
             (scenario.setup_timeout + scenario.close_timeout + 2 * scenario.cause_window);
}

void Job::Boot(int rank) {
  if (world_.over) return;
  auto process =
      std::make_shared<Process>(&world_, rank, 1 + world_.chooser->Below(1u << 30) + boots_++,
                                [this](const Attempt& attempt) { OnEnded(attempt); });
  if (absl::Status status = process->Begin(); !status.ok()) {
    // The process before is not known to be dead yet.
    world_.executor->PostAt(world_.executor->Now() + absl::Milliseconds(20),
                            [this, rank] { Boot(rank); });
    return;
  }
  auto& latest = ranks_[static_cast<size_t>(rank)];
  if (latest != nullptr) world_.Count(Fault::kRestart, rank);
  latest = process;
  all_.push_back(std::move(process));
}

void Job::BootLater(int rank) {
  world_.schedule->Add({Lane::Kind::kFate, rank, 1},
                       world_.chooser->Between(absl::Milliseconds(10), kLongestReboot),
                       [this, rank] { Boot(rank); });
}

void Job::Watch() {
  for (const auto& process : ranks_) {
    if (process == nullptr) continue;
    process->CheckBounds();
    // A process without a store is of no use to anybody: another one takes its place.
    if (!process->dead() && process->spent() && !world_.over) {
      process->Exit();
      BootLater(process->rank());
    }
  }
  world_.executor->PostAt(world_.executor->Now() + absl::Milliseconds(20), [this] { Watch(); });
}

void Job::MakeTrouble() {
  if (world_.calm) return;
  const auto rank = static_cast<size_t>(world_.chooser->Below(ranks_.size()));
  if (Process* const process = ranks_[rank].get(); process != nullptr && !process->dead()) {
    Strike(*process);
  }
  StrikeStore();
  world_.executor->PostAt(world_.executor->Now() + world_.chooser->Between(absl::Milliseconds(20),
                                                                           absl::Milliseconds(400)),
                          [this] { MakeTrouble(); });
}

void Job::Strike(Process& process) {
  const Scenario& scenario = world_.scenario;
  const auto up_to = [this](absl::Duration most) {
    return world_.chooser->Between(absl::Milliseconds(5), most);
  };
  if (world_.Strikes(Fault::kCrash, 110, process.rank())) {
    process.Kill(/*host_is_gone=*/false);
    BootLater(process.rank());
  } else if (world_.Strikes(Fault::kHostGone, 40, process.rank())) {
    process.Kill(/*host_is_gone=*/true);
    BootLater(process.rank());
  } else if (world_.Strikes(Fault::kExit, 60, process.rank())) {
    process.Exit();
    BootLater(process.rank());
  } else if (world_.Strikes(Fault::kCutOff, 50, process.rank())) {
    process.LoseStore();
  } else if (world_.Strikes(Fault::kSessionLoss, 40, process.rank())) {
    process.LoseSession();
  } else if (world_.Strikes(Fault::kStop, 150, process.rank())) {
    process.Pause(up_to(world_.chooser->Chance(50) ? absl::Milliseconds(100)
                                                   : 2 * scenario.heartbeat_timeout));
  } else if (scenario.slowness > absl::ZeroDuration() &&
             world_.Strikes(Fault::kSlowRank, 150, process.rank())) {
    process.Slow(up_to(absl::Milliseconds(500)));
  } else if (world_.Strikes(Fault::kClockJump, 50, process.rank())) {
    process.JumpClock(up_to(absl::Seconds(2)));
  }
}

// At no moment in particular: the explorer tries them all.
void Job::PlanFates() {
  for (int rank = 0; rank < world_.scenario.size; ++rank) {
    for (const Fault fault :
         {Fault::kCrash, Fault::kExit, Fault::kCutOff, Fault::kSessionLoss, Fault::kStop}) {
      if (!world_.Strikes(fault, 1000, rank)) continue;
      world_.schedule->Add({Lane::Kind::kFate, rank, 2}, absl::ZeroDuration(), [this, rank, fault] {
        const auto process = ranks_[static_cast<size_t>(rank)];
        if (process != nullptr) Meet(*process, fault);
      });
    }
  }
}

void Job::Meet(Process& process, Fault fault) {
  switch (fault) {
    case Fault::kCrash:
      process.Kill(/*host_is_gone=*/false);
      return BootLater(process.rank());
    case Fault::kExit:
      process.Exit();
      return BootLater(process.rank());
    case Fault::kCutOff:
      return process.LoseStore();
    case Fault::kSessionLoss:
      return process.LoseSession();
    default:
      process.Pause(absl::InfiniteDuration());
      world_.schedule->Add({Lane::Kind::kFate, process.rank(), 3}, absl::ZeroDuration(),
                           [process = process.weak_from_this()] {
                             if (auto stopped = process.lock()) stopped->Resume();
                           });
  }
}

void Job::StrikeStore() {
  if (world_.store.paused()) return;
  if (world_.Strikes(Fault::kStoreLoss, 8, -1)) {
    for (const auto& process : ranks_) {
      if (process != nullptr) process->LoseStore();
    }
    world_.store.Restart();
  } else if (world_.scenario.store_pause > absl::ZeroDuration() &&
             world_.Strikes(Fault::kStorePause, 60, -1)) {
    world_.store.Pause(world_.chooser->Between(absl::Milliseconds(1), world_.scenario.store_pause));
  } else if (world_.Strikes(Fault::kLongStorePause, 20, -1)) {
    const absl::Duration pause = world_.chooser->Between(
        absl::Milliseconds(50), 3 * std::min(world_.scenario.heartbeat_timeout, absl::Seconds(1)));
    world_.checker.OnStoreLate(world_.executor->Now(), world_.executor->Now() + pause);
    world_.store.Pause(pause);
  }
}

void Job::Calm() {
  world_.journal.Write(world_.executor->Now(), -1, "--- from now on nothing goes wrong");
  world_.calm = true;
  world_.checker.OnCalm();
  world_.store.Resume();
  for (const auto& process : ranks_) {
    if (process == nullptr) continue;
    process->Resume();
    process->CloseAll();
    process->NextRound();
  }
}

void Job::OnEnded(const Attempt& attempt) {
  const Life& life = attempt.life();
  if (life.state != GroupState::kDestroyed || life.generation == 0 || !attempt.is_calm()) return;
  if (++clean_[{life.name, life.generation}] == world_.scenario.size) recovered_[life.name] = true;
}

// All groups have ended and their last messages have arrived. The sessions live on, so what is
// gone was taken back, not swept away.
void Job::Settle() {
  for (const auto& process : all_) process->Report(world_.checker);
  world_.checker.CheckCauses();
  RunUntil(world_.executor->Now() + 4 * world_.scenario.latency(), [] { return false; });
  CheckStore();
  for (const auto& process : ranks_) {
    if (process != nullptr) process->Leave();
  }
  const absl::Duration heartbeat = std::min(world_.scenario.heartbeat_timeout, absl::Seconds(1));
  RunUntil(world_.executor->Now() + 4 * heartbeat, [] { return false; });
  CheckStore();
}

// Nothing of any generation but the record.
void Job::CheckStore() {
  const store_internal::StoreEngine& engine = world_.store.engine();
  if (engine.waiting_gathers() != 0) {
    world_.checker.Violate(absl::StrCat("L2: ", engine.waiting_gathers(),
                                        " gathers wait in the store for groups that have ended"));
  }
  if (engine.keys() > ranks_.size() + static_cast<size_t>(world_.scenario.names)) {
    world_.checker.Violate(
        absl::StrCat("L8: ", engine.keys(), " keys are left in the store: ", ranks_.size(),
                     " sessions and the records of ", world_.scenario.names, " names are allowed"));
  }
}

}  // namespace muster::simulation

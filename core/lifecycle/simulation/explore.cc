// Random schedules, as many as one likes, or all of a small job: README.md
//
//   bazel run //core/lifecycle/simulation:explore -- --schedules=100000
//   bazel run //core/lifecycle/simulation:explore -- --seed=42     # one, with every step
//   bazel run //core/lifecycle/simulation:explore -- --exhaustive --size=2 --depth=12
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/simulation/exhaustive.h"
#include "muster/core/lifecycle/simulation/protocol_mutations.h"
#include "muster/core/lifecycle/simulation/simulation.h"

ABSL_FLAG(uint64_t, schedules, 1000000, "How many random schedules to run.");
ABSL_FLAG(uint64_t, first_seed, 1, "Where to begin.");
ABSL_FLAG(std::optional<uint64_t>, seed, std::nullopt,
          "Run this seed alone and print its schedule.");
ABSL_FLAG(int, size, 0, "Ranks of the job; 0: the seed says, up to 64.");
ABSL_FLAG(std::string, mutation, "none", "What to break, to see that it is noticed.");
ABSL_FLAG(int, threads, 0, "0: one for each core.");
ABSL_FLAG(bool, exhaustive, false, "All schedules of a job of --size ranks (2) up to --depth.");
ABSL_FLAG(int, depth, 10, "With --exhaustive: choices between events that are made both ways.");
ABSL_FLAG(int, faults, 1, "With --exhaustive: how many things go wrong in a schedule.");
ABSL_FLAG(std::string, begin, "created",
          "With --exhaustive: the choices begin when a group has come to this state.");

namespace muster::simulation {
namespace {

class Exploration {
 public:
  explicit Exploration(const SimulationOptions& options)
      : options_(options),
        first_(absl::GetFlag(FLAGS_first_seed)),
        end_(first_ + absl::GetFlag(FLAGS_schedules)),
        next_(first_) {}

  int Run() {
    int threads = absl::GetFlag(FLAGS_threads);
    if (threads <= 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const absl::Time start = absl::Now();
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back([this] { Work(); });
    for (std::thread& worker : workers) worker.join();
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);

    absl::MutexLock lock(&mutex_);
    std::cout << tally_.ToString() << tally_.schedules << " schedules in "
              << absl::FormatDuration(absl::Seconds(std::lround(seconds))) << ", "
              << static_cast<int64_t>(static_cast<double>(tally_.schedules) / seconds)
              << " a second on " << threads << " threads, " << failures_ << " failed\n";
    if (failures_ == 0) return 0;
    SimulationOptions failed = options_;
    failed.seed = first_failed_;
    std::cout << Replay(failed) << "\n";
    return 1;
  }

 private:
  void Work() {
    SimulationOptions options = options_;
    Tally tally;
    while ((options.seed = next_++) < end_) {
      const SimulationResult result = Simulate(options);
      tally.Add(result.tally);
      if (!result.violation.empty()) Report(options.seed, result.violation);
      if ((options.seed - first_) % 10000 == 9999) {
        absl::MutexLock lock(&mutex_);
        std::cout << options.seed - first_ + 1 << " schedules" << std::endl;
      }
    }
    absl::MutexLock lock(&mutex_);
    tally_.Add(tally);
  }

  void Report(uint64_t seed, const std::string& violation) {
    absl::MutexLock lock(&mutex_);
    if (failures_++ == 0 || seed < first_failed_) first_failed_ = seed;
    if (failures_ <= 20) std::cout << "seed " << seed << ": " << violation << std::endl;
  }

  const SimulationOptions options_;
  const uint64_t first_;
  const uint64_t end_;
  std::atomic<uint64_t> next_;
  absl::Mutex mutex_;
  Tally tally_ ABSL_GUARDED_BY(mutex_);
  int64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t first_failed_ ABSL_GUARDED_BY(mutex_) = 0;
};

// 1: a promise was broken. 2: what was asked for makes no sense.
int Exhaust(const SimulationOptions& options) {
  ExhaustiveOptions all;
  all.size = options.size > 0 ? options.size : 2;
  all.depth = absl::GetFlag(FLAGS_depth);
  all.faults = absl::GetFlag(FLAGS_faults);
  all.mutation = options.mutation;
  const std::string begin = absl::GetFlag(FLAGS_begin);
  int state = 0;
  while (state < kGroupStateCount && Name(static_cast<GroupState>(state)) != begin) ++state;
  if (state == kGroupStateCount) {
    std::cerr << "no state is called '" << begin << "'\n";
    return 2;
  }
  all.begin = static_cast<GroupState>(state);
  const absl::Time start = absl::Now();
  const ExhaustiveResult result = ExploreAll(all);
  std::cout << result.tally.ToString() << all.size << " ranks, from " << begin << ", depth "
            << all.depth << ", faults " << all.faults << ": " << result.states << " states, "
            << result.schedules << " schedules, "
            << absl::FormatDuration(absl::Trunc(absl::Now() - start, absl::Milliseconds(1)))
            << "\n";
  if (result.violation.empty()) return 0;
  std::cout << result.schedule << "\n" << result.violation << "\n";
  return 1;
}

bool Plant(const std::string& wanted, SimulationOptions& options) {
  const std::vector<ProtocolMutation> planted = ProtocolMutations();
  const auto has_name = [&](const ProtocolMutation& mutation) { return mutation.name == wanted; };
  if (const auto found = std::find_if(planted.begin(), planted.end(), has_name);
      found != planted.end()) {
    PlantProtocolMutation(static_cast<int>(found - planted.begin()) + 1);
    return true;
  }
  for (const Mutation mutation : kAllMutations) {
    if (Name(mutation) == wanted) options.mutation = mutation;
  }
  if (Name(options.mutation) == wanted) return true;
  std::cerr << "no mutation is called '" << wanted << "'; there are:\n";
  for (const Mutation mutation : kAllMutations) std::cerr << "  " << Name(mutation) << "\n";
  for (const ProtocolMutation& mutation : planted) std::cerr << "  " << mutation.name << "\n";
  if (planted.empty()) std::cerr << "  and those of the real code, in :explore_mutations\n";
  return false;
}

int Main() {
  SimulationOptions options;
  options.size = absl::GetFlag(FLAGS_size);
  if (!Plant(absl::GetFlag(FLAGS_mutation), options)) return 2;
  if (absl::GetFlag(FLAGS_exhaustive)) return Exhaust(options);
  if (const std::optional<uint64_t> seed = absl::GetFlag(FLAGS_seed); seed.has_value()) {
    options.seed = *seed;
    std::cout << Replay(options) << "\n";
    return Simulate(options).violation.empty() ? 0 : 1;
  }
  return Exploration(options).Run();
}

}  // namespace
}  // namespace muster::simulation

int main(int argc, char** argv) {
  // Each run has one thread, and its executor's lock is taken at every step.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  absl::SetProgramUsageMessage(
      "Runs the group protocol under random faults and checks its "
      "promises; see core/lifecycle/simulation/README.md.");
  absl::ParseCommandLine(argc, argv);
  return muster::simulation::Main();
}

#include "muster/core/lifecycle/simulation/exhaustive.h"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "muster/core/lifecycle/simulation/chooser.h"
#include "muster/core/lifecycle/simulation/job.h"
#include "muster/core/lifecycle/simulation/schedule.h"
#include "muster/core/lifecycle/simulation/world.h"
#include "muster/core/platform/manual_executor.h"
#include "muster/core/platform/split_mix64.h"

namespace muster::simulation {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) { return SplitMix64(hash ^ (value * 31 + 7)).Next(); }

// What goes wrong in a schedule: `fault`, the `time`th time that it could.
struct Fate {
  Fault fault;
  int time;
};

// Heartbeats are left out, and so is what they alone notice; delays are choices by themselves.
std::vector<Fate> AllFates(int size) {
  constexpr Fault kFaults[] = {
      Fault::kCrash,         Fault::kExit,           Fault::kStop,
      Fault::kCutOff,        Fault::kSessionLoss,    Fault::kHeldMessage,
      Fault::kConnectFails,  Fault::kConnectSilent,  Fault::kConnectTimesOut,
      Fault::kWorkFails,     Fault::kWorkSilent,     Fault::kTransportBreaks,
      Fault::kFinalizeFails, Fault::kFinalizeSilent, Fault::kAbortSilent,
      Fault::kRefusal,       Fault::kOtherIdentity,  Fault::kStuck,
      Fault::kEarlyEnd,      Fault::kAbort,          Fault::kClose,
      Fault::kSlowHolders,   Fault::kHurry,
  };
  std::vector<Fate> fates;
  for (const Fault fault : kFaults) {
    for (int time = 1; time <= (fault == Fault::kHeldMessage ? 1 : size); ++time) {
      fates.push_back({fault, time});
    }
  }
  return fates;
}

// The tree of choices, and the way through it that is tried now.
class Tree {
 public:
  explicit Tree(size_t depth) : depth_(depth) {}

  // Of this way: what it chose before, or the first.
  int Choose(int options) {
    if (options < 2) return 0;
    if (at_ < way_.size()) return way_[at_++].taken;
    way_.push_back({0, options});
    ++at_;
    return 0;
  }
  // The choices of what goes wrong are not counted.
  void Begin() { begun_ = at_; }
  // How many choices between events have been made.
  size_t made() const { return at_ - begun_; }
  bool at_end() const { return made() >= depth_; }
  // Whether what comes now has not been tried in an earlier run.
  bool on_new_ground() const { return at_ == way_.size(); }

  // To the next way; false when all have been tried.
  bool Next() {
    at_ = begun_ = 0;
    while (!way_.empty() && way_.back().taken + 1 == way_.back().options) way_.pop_back();
    if (way_.empty()) return false;
    ++way_.back().taken;
    return true;
  }
  void Repeat() { at_ = begun_ = 0; }

 private:
  struct Choice {
    int taken;
    int options;
  };
  const size_t depth_;
  std::vector<Choice> way_;
  size_t at_ = 0;
  size_t begun_ = 0;
};

class FatefulChooser final : public Chooser {
 public:
  void Add(const Fate& fate) { fates_.push_back(fate); }
  // What tells the event that happens now, for the next strike.
  void SetEvent(std::function<uint64_t()> event) { event_ = std::move(event); }
  uint64_t struck() const { return struck_; }
  bool Has(Fault fault) const {
    return std::any_of(fates_.begin(), fates_.end(),
                       [&](const Fate& fate) { return fate.fault == fault; });
  }
  // The middle: whatever is likely is so.
  uint64_t Below(uint64_t limit) override { return limit / 2; }
  bool Strikes(Fault fault, int) override {
    const int time = ++times_[static_cast<size_t>(fault)];
    const bool strikes = std::any_of(fates_.begin(), fates_.end(), [&](const Fate& fate) {
      return fate.fault == fault && fate.time == time;
    });
    if (strikes) struck_ = Mix(struck_, event_());
    return strikes;
  }

 private:
  std::vector<Fate> fates_;
  std::function<uint64_t()> event_;
  uint64_t struck_ = 0;
  std::array<int, kFaultCount> times_{};
};

using Seen = std::unordered_map<uint64_t, size_t>;  // a state, and after how many choices

// The events of each lane wait in line; the tree says which lane is next. Time passes when nothing
// is on its way; once in a schedule that holds a message up, before that.
class ChosenSchedule final : public Schedule {
 public:
  ChosenSchedule(ManualExecutor* executor, Tree* tree, Seen* seen, FatefulChooser* chooser,
                 uint64_t start)
      : executor_(executor),
        tree_(tree),
        seen_(seen),
        chooser_(chooser),
        start_(start),
        may_be_late_(chooser->Has(Fault::kHeldMessage)) {
    chooser->SetEvent([this] { return event_; });
  }

  void SetWorld(World* world, GroupState begin) {
    world_ = world;
    begin_ = begin;
  }
  // This state has been seen: what follows from it, too.
  bool cut() const { return cut_; }

  void Add(const Lane& lane, absl::Duration, std::function<void()> task) override {
    lanes_[lane].waiting.push_back(std::move(task));
  }
  void Touch(int part) override {
    auto& [event, history] = histories_[part];
    if (event == serial_) return;
    event = serial_;
    history = Mix(history, event_);
  }
  void RunUntil(absl::Time limit, const std::function<bool()>& done) override {
    executor_->RunUntilIdle();
    while (!cut_ && !done()) {
      std::vector<Lane> ready;
      for (const auto& [lane, events] : lanes_) {
        if (!events.waiting.empty()) ready.push_back(lane);
      }
      const absl::Time next = executor_->NextTimer();
      if (ready.empty() && next > limit) return;
      const bool late = may_be_late_ && !ready.empty() && next <= limit;
      const int options = static_cast<int>(ready.size()) + (late ? 1 : 0);
      const int choice = ready.empty() ? 0 : Choose(options);
      if (cut_) return;
      if (choice == static_cast<int>(ready.size())) {
        if (!ready.empty()) may_be_late_ = false;
        PassTime(next);
      } else {
        Happen(ready[static_cast<size_t>(choice)]);
      }
    }
  }

 private:
  struct Events {
    std::deque<std::function<void()>> waiting;
    uint64_t happened = 0;
  };

  int Choose(int options) {
    if (options < 2 || world_->calm || tree_->at_end()) return 0;
    begun_ = begun_ || world_->checker.tally().entered[static_cast<size_t>(begin_)] > 0 ||
             begin_ == GroupState::kCreated;
    if (!begun_) return 0;
    if (tree_->on_new_ground()) {
      const auto [known, is_new] = seen_->emplace(State(), tree_->made());
      if (!is_new && known->second <= tree_->made()) {
        cut_ = true;
        return 0;
      }
      known->second = tree_->made();
    }
    return tree_->Choose(options);
  }

  uint64_t State() const {
    uint64_t state =
        Mix(start_, static_cast<uint64_t>(absl::ToUnixMicros(executor_->Now())) * 2 + may_be_late_);
    state = Mix(state, chooser_->struck());
    for (const auto& [part, seen] : histories_) {
      state = Mix(state, Mix(static_cast<uint64_t>(part) + 100, seen.second));
    }
    return state;
  }

  void Happen(const Lane& lane) {
    Events& events = lanes_[lane];
    const std::function<void()> task = std::move(events.waiting.front());
    events.waiting.pop_front();
    ++serial_;
    event_ = Mix(Mix(static_cast<uint64_t>(lane.kind) * 1000 + static_cast<uint64_t>(lane.rank),
                     lane.number),
                 ++events.happened);
    if (world_->journal.enabled()) {
      world_->journal.Write(executor_->Now(), -1, absl::StrCat("· ", Describe(lane)));
    }
    task();
    executor_->RunUntilIdle();
  }

  void PassTime(absl::Time next) {
    ++serial_;
    event_ = Mix(7, static_cast<uint64_t>(absl::ToUnixMicros(next)));
    executor_->AdvanceTo(next);
  }

  ManualExecutor* const executor_;
  Tree* const tree_;
  Seen* const seen_;
  FatefulChooser* const chooser_;
  const uint64_t start_;
  World* world_ = nullptr;
  GroupState begin_ = GroupState::kCreated;
  bool begun_ = false;
  bool may_be_late_;
  bool cut_ = false;
  std::map<Lane, Events> lanes_;
  uint64_t serial_ = 1;                                     // of the event that happens
  uint64_t event_ = 1;                                      // which one it is, in every schedule
  std::map<int, std::pair<uint64_t, uint64_t>> histories_;  // by part: last serial, hash
};

Scenario SmallScenario(int size, bool rough, bool closes) {
  Scenario scenario;
  scenario.size = size;
  scenario.rough = rough;
  scenario.rounds = 2;
  scenario.heartbeat_timeout = absl::InfiniteDuration();
  scenario.chosen = true;
  scenario.work = 1;
  scenario.closes = closes;
  return scenario;
}

// One run. False: it was cut.
bool RunOne(const ExhaustiveOptions& options, Tree& tree, Seen& seen, bool with_journal,
            ExhaustiveResult& result) {
  FatefulChooser chooser;
  const std::vector<Fate> fates = AllFates(options.size);
  const bool closes = tree.Choose(2) == 0;
  uint64_t start = Mix(options.depth, closes);
  for (int i = 0; i < options.faults; ++i) {
    const int fate = tree.Choose(static_cast<int>(fates.size()) + 1);
    start = Mix(start, static_cast<uint64_t>(fate));
    if (fate > 0) chooser.Add(fates[static_cast<size_t>(fate - 1)]);
  }
  tree.Begin();
  ManualExecutor executor;
  ChosenSchedule schedule(&executor, &tree, &seen, &chooser, start);
  World world(SmallScenario(options.size, chooser.Has(Fault::kHeldMessage), closes),
              options.mutation, with_journal, &chooser, &executor, &schedule);
  schedule.SetWorld(&world, options.begin);
  Job job(&world);
  job.Run();
  if (schedule.cut()) return false;
  result.violation = world.checker.violation();
  result.schedule = absl::StrJoin(world.journal.lines(), "\n");
  result.tally.Add(world.checker.tally());
  return true;
}

}  // namespace

ExhaustiveResult ExploreAll(const ExhaustiveOptions& options) {
  ExhaustiveResult result;
  Tree tree(static_cast<size_t>(options.depth));
  Seen seen;
  do {
    if (result.schedules >= options.most_schedules) break;
    ++result.schedules;
    RunOne(options, tree, seen, /*with_journal=*/false, result);
    if (!result.violation.empty()) {
      Seen fresh;
      tree.Repeat();
      RunOne(options, tree, fresh, /*with_journal=*/true, result);
      break;
    }
    result.complete = !tree.Next();
  } while (!result.complete);
  result.states = seen.size();
  return result;
}

}  // namespace muster::simulation

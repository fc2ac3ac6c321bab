#include "muster/testing/contract/kill_run.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "muster/core/group.h"
#include "muster/core/lifecycle/state.h"
#include "muster/core/observe/observer.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/split_mix64.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/contract/forked_process.h"
#include "muster/testing/contract/kill_judge.h"
#include "muster/testing/contract/served_store.h"

namespace muster::testing {
namespace {

absl::Duration Scaled(absl::Duration duration) { return TimeoutScale() * duration; }

// In which state of which generation a process was: in memory that outlives it.
class Vitals {
 public:
  void Enter(int64_t generation, GroupState state) {
    value_ = generation * kGroupStateCount + static_cast<int64_t>(state);
  }
  int64_t generation() const { return value_ / kGroupStateCount; }
  GroupState state() const { return static_cast<GroupState>(value_ % kGroupStateCount); }

 private:
  std::atomic<int64_t> value_{0};
};

class SharedVitals {
 public:
  explicit SharedVitals(int ranks)
      : size_(sizeof(Vitals) * static_cast<size_t>(ranks)),
        memory_(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) return;
    for (int rank = 0; rank < ranks; ++rank) new (static_cast<Vitals*>(memory_) + rank) Vitals();
  }
  ~SharedVitals() {
    if (ok()) munmap(memory_, size_);
  }
  SharedVitals(const SharedVitals&) = delete;
  SharedVitals& operator=(const SharedVitals&) = delete;

  bool ok() const { return memory_ != MAP_FAILED; }
  Vitals& operator[](int rank) { return static_cast<Vitals*>(memory_)[rank]; }

 private:
  const size_t size_;
  void* const memory_;
};

class VitalsObserver final : public Observer {
 public:
  explicit VitalsObserver(Vitals* vitals) : vitals_(vitals) {}
  void OnTransition(const TransitionEvent& event) override {
    int64_t generation = 0;  // of "train", before its ranks have met
    const std::pair<absl::string_view, absl::string_view> id = absl::StrSplit(event.group, '/');
    if (!absl::SimpleAtoi(id.second, &generation)) generation = 0;
    vitals_->Enter(generation, event.to);
  }

 private:
  Vitals* const vitals_;
};

GroupSpec SpecOf(const KillPlan& plan) {
  GroupSpec spec;
  spec.name = "train";
  spec.backend = plan.backend;
  // A rank that is stopped is noticed by these alone; one that is killed never is.
  const absl::Duration bound =
      Scaled(absl::Seconds(plan.plant == KillPlan::Plant::kStopped ? 1 : 60));
  spec.setup_timeout = spec.operation_timeout = spec.close_timeout = bound;
  // However long the store has no processor.
  spec.cause_window = Scaled(absl::Seconds(10));
  return spec;
}

absl::Status UseOnce(const GroupLease& lease, int ranks, int operations) {
  for (int i = 0; i < operations; ++i) {
    float value = 1;
    if (absl::Status reduced = lease->AllReduce(Buffer::Of(value), ReduceOp::kSum); !reduced.ok()) {
      return reduced;
    }
    if (value != static_cast<float>(ranks)) {
      return absl::DataLossError(absl::StrCat("the sum of ", ranks, " ones is ", value));
    }
  }
  return absl::OkStatus();
}

// A rank. Says "ready 7", "closed 7" and "failed 7 <cause>" of each generation; "failed 0 ..."
// where it does not know which.
void MakeGroupsForEver(const KillPlan& plan, const World& world, Vitals& vitals, TestLink& link) {
  VitalsObserver observer(&vitals);
  PoolOptions options;
  options.observer = &observer;
  options.heartbeat_timeout = absl::InfiniteDuration();  // nobody is lost for want of a processor
  options.connect_timeout = Scaled(absl::Seconds(30));
  absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::Create(world, options);
  if (!pool.ok()) {
    link.Say(absl::StrCat("failed 0 no pool: ", pool.status().message()));
    return;
  }
  const GroupSpec spec = SpecOf(plan);
  while (true) {
    absl::StatusOr<GroupLease> lease = (*pool)->Acquire(spec);
    if (!lease.ok()) {
      link.Say(absl::StrCat("failed 0 ", lease.status().message()));
      continue;
    }
    const int64_t generation = (*lease)->generation();
    link.Say(absl::StrCat("ready ", generation));
    SplitMix64 random(plan.seed + static_cast<uint64_t>(generation));  // alike on all ranks
    absl::Status ended = UseOnce(*lease, world.size, static_cast<int>(random.Below(8)));
    if (ended.ok()) ended = lease->Close();
    link.Say(ended.ok() ? absl::StrCat("closed ", generation)
                        : absl::StrCat("failed ", generation, " ", ended.message()));
  }
}

class KillRun {
 public:
  explicit KillRun(const KillPlan& plan)
      : plan_(plan), random_(plan.seed), vitals_(plan.ranks), judge_(plan.ranks) {}

  KillReport Run() {
    RunRounds();
    report_.delays = judge_.delays();
    return std::move(report_);
  }

 private:
  void RunRounds() {
    absl::StatusOr<ServedStore> store = ServedStore::Start(plan_.ranks);
    if (!store.ok() || !vitals_.ok()) {
      report_.wrong.push_back(store.ok() ? "no shared memory" : store.status().ToString());
      return;
    }
    store_ = &*store;
    ranks_.resize(static_cast<size_t>(plan_.ranks));
    for (int rank = 0; rank < plan_.ranks; ++rank) Start(rank);
    AwaitRecovery("the start");
    while (report_.wrong.empty() && report_.kills < plan_.kills) Round();
    ranks_.clear();  // before their store
  }

  void Start(int rank) {
    absl::StatusOr<ForkedProcess> process = ForkedProcess::Start([this, rank](TestLink& link) {
      // Nothing of the other ranks' ends.
      for (ForkedProcess& other : ranks_) other.Forget();
      MakeGroupsForEver(plan_, store_->RankOf(rank), vitals_[rank], link);
    });
    if (!process.ok()) {
      report_.wrong.push_back(process.status().ToString());
      return;
    }
    ranks_[rank] = *std::move(process);
  }

  int AnyRank() { return static_cast<int>(random_.Below(static_cast<uint64_t>(plan_.ranks))); }
  absl::Duration UpTo(absl::Duration longest) {
    return absl::Microseconds(random_.Below(absl::ToInt64Microseconds(longest) + 1));
  }

  // Somebody is killed and comes back; now and then two are, or one that has just come back.
  void Round() {
    Listen(UpTo(kLongestPause));
    std::vector<int> to_start = {AnyRank()};
    Strike(to_start[0]);
    if (random_.Below(5) == 0 && report_.kills < plan_.kills) {
      Listen(UpTo(kLongestPause));
      const bool comes_back_first = random_.Below(2) == 0;
      if (comes_back_first) {
        Start(to_start[0]);
        to_start.clear();
        Listen(UpTo(kLongestPause));
      }
      const int second = AnyRank();
      if (ranks_[second].pid() > 0) {
        Strike(second);
        to_start.push_back(second);
      }
    }
    if (plan_.plant == KillPlan::Plant::kStopped) {
      AwaitRecovery("a rank that is stopped");
      return;
    }
    for (const int rank : to_start) {
      if (random_.Below(2) == 0) Listen(UpTo(kLongestPause));
      Start(rank);
    }
    AwaitRecovery(absl::StrCat("kill ", report_.kills));
  }

  void Strike(int rank) {
    ForkedProcess& process = ranks_[rank];
    const pid_t pid = process.pid();
    const absl::Time now = MonotonicNow();
    if (plan_.plant == KillPlan::Plant::kStopped) {
      kill(pid, SIGSTOP);
    } else {
      process.Kill();
    }
    if (plan_.plant == KillPlan::Plant::kOtherBlamed) {
      store_->DeclareLost((rank + 1) % plan_.ranks);
    }
    HearOut(rank);
    const Vitals& vitals = vitals_[rank];
    judge_.OnDeath({rank, pid, vitals.state() == GroupState::kReady, vitals.generation(), now});
    ++report_.kills;
    ++report_.moments[std::string(Name(vitals.state()))];
    vitals_[rank].Enter(0, GroupState::kCreated);
  }

  void AwaitRecovery(absl::string_view from) {
    const absl::Time deadline = MonotonicNow() + Scaled(absl::Seconds(60));
    while (!judge_.Recovered() && judge_.wrong().empty() && MonotonicNow() < deadline) {
      ListenOnce(deadline);
    }
    if (!judge_.Recovered() && judge_.wrong().empty()) {
      report_.wrong.push_back(absl::StrCat(
          "missed: 60 s after ", from,
          " there is no group over all ranks; they said last: ", absl::StrJoin(last_words_, "; ")));
    }
    for (std::string& wrong : judge_.EndRound()) report_.wrong.push_back(std::move(wrong));
  }

  void Listen(absl::Duration duration) {
    const absl::Time until = MonotonicNow() + duration;
    while (MonotonicNow() < until) ListenOnce(until);
  }

  void ListenOnce(absl::Time until) {
    std::vector<const ForkedProcess*> living;
    for (const ForkedProcess& rank : ranks_) {
      if (rank.pid() > 0) living.push_back(&rank);
    }
    AwaitNews(living, until);
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      if (ranks_[rank].pid() > 0) HearOut(rank);
    }
  }

  void HearOut(int rank) {
    while (const std::optional<std::string> said = ranks_[rank].Hear(absl::InfinitePast())) {
      last_words_[static_cast<size_t>(rank)] = *said;
      const std::vector<std::string> words = absl::StrSplit(*said, absl::MaxSplits(' ', 2));
      int64_t generation = 0;
      if (words.size() < 2 || !absl::SimpleAtoi(words[1], &generation)) continue;
      if (words[0] == "ready") judge_.OnReady(rank, generation);
      if (words[0] == "closed") judge_.OnClosed(rank, generation);
      if (words[0] == "failed") {
        judge_.OnFailed(rank, generation, words.size() > 2 ? words[2] : "", MonotonicNow());
      }
    }
  }

  // Longer than the life of a group here.
  static constexpr absl::Duration kLongestPause = absl::Milliseconds(15);

  const KillPlan plan_;
  SplitMix64 random_;
  SharedVitals vitals_;
  KillJudge judge_;
  ServedStore* store_ = nullptr;
  std::vector<ForkedProcess> ranks_;
  std::vector<std::string> last_words_ = std::vector<std::string>(plan_.ranks);
  KillReport report_;
};

}  // namespace

std::string KillReport::ToString() const {
  std::vector<absl::Duration> sorted = delays;
  std::sort(sorted.begin(), sorted.end());
  std::string text =
      absl::StrCat(kills, " kills (",
                   absl::StrJoin(moments, ", ",
                                 [](std::string* out, const auto& moment) {
                                   absl::StrAppend(out, moment.first, " ", moment.second);
                                 }),
                   ")");
  if (!sorted.empty()) {
    absl::StrAppend(&text, "; named after ", absl::FormatDuration(sorted[sorted.size() / 2]),
                    " in the median, ", absl::FormatDuration(sorted.back()), " at most");
  }
  return text;
}

KillReport RunKills(const KillPlan& plan) { return KillRun(plan).Run(); }

}  // namespace muster::testing

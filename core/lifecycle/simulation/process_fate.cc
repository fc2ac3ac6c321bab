// Process: what happens to it.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "muster/core/lifecycle/process_end.h"
#include "muster/core/lifecycle/simulation/process.h"
#include "muster/core/store/heartbeat.h"

namespace muster::simulation {

void Process::Die() {
  dead_ = true;
  world_->schedule->Touch(rank_);
  world_->checker.OnProcessAtFault(incarnation_, world_->executor->Now());
  ForEachLive([](Attempt& attempt) { attempt.Die(); });
}

void Process::NoteGone(absl::Duration within, bool ends_meetings) {
  if (cut_off_) return;  // it cannot say so, and the store finds out in its own time
  const absl::Duration grace = world_->scenario.loss_grace;
  world_->checker.OnProcessGone({era_, rank_, incarnation_, within + grace, ends_meetings},
                                world_->executor->Now());
}

void Process::Kill(bool host_is_gone) {
  if (dead_) return;
  Die();
  // What it has sent arrives, unless its network is gone with it.
  link_->Cut(/*loses_what_is_under_way=*/host_is_gone || world_->chooser->Chance(50));
  const auto notice = [link = link_] { link->Disconnect("its connection closed"); };
  if (host_is_gone) {
    NoteGone(world_->checker.SilenceBound());
    world_->executor->PostAt(world_->executor->Now() + 3 * world_->scenario.heartbeat_timeout,
                             notice);
  } else {
    const absl::Duration soon = absl::Milliseconds(30);
    NoteGone(soon);
    world_->schedule->Add({Lane::Kind::kToStore, rank_, incarnation_},
                          world_->chooser->Between(absl::ZeroDuration(), soon), notice);
  }
  client_->Shutdown(absl::CancelledError("killed"));
}

// What the runtime says then: of its process, or only of its pool.
std::string Process::LastWords() const {
  SessionRecord self;
  self.rank = rank_;
  self.host = info_.host;
  self.pid = info_.pid;
  switch (world_->chooser->Below(4)) {
    case 0:
      return "closed";
    case 1:
      return absl::StrCat("rank ", rank_, " ", kDestroyedItsPool, "it held 'train/1'");
    case 2:
      return ProcessEnd(self.Who(), kExitedWithGroups);
    default:
      return ProcessEnd(self.Who(), absl::StrCat(kToldToStop, "15 (Terminated)"));
  }
}

void Process::Exit() {
  if (dead_) return;
  const std::string words = LastWords();
  client_->Leave(words, clock_->Now() + absl::Seconds(1), [](absl::Status) {});
  Die();
  const absl::Duration soon = absl::Milliseconds(100);
  NoteGone(soon, TellsOfAProcessEnd(words));
  world_->schedule->Add({Lane::Kind::kToStore, rank_, incarnation_}, soon, [link = link_] {
    link->Cut(/*loses_what_is_under_way=*/true);
    link->Disconnect("its connection closed");
  });
}

void Process::LoseStore() {
  if (dead_ || store_lost_) return;
  world_->schedule->Touch(rank_);
  world_->checker.OnProcessAtFault(incarnation_, world_->executor->Now());
  ForEachLive([](Attempt& attempt) { attempt.OnCutOff(); });
  link_->Cut(world_->chooser->Chance(50));
  NoteGone(kNoticesCutOff);
  cut_off_ = true;
  const auto some_time = [this] {
    return world_->chooser->Between(absl::ZeroDuration(), kNoticesCutOff);
  };
  world_->schedule->Add({Lane::Kind::kToStore, rank_, incarnation_}, some_time(),
                        [link = link_] { link->Disconnect("its connection closed"); });
  world_->schedule->Add({Lane::Kind::kFromStore, rank_, incarnation_}, some_time(),
                        [client = client_, world = world_, rank = rank_] {
                          world->schedule->Touch(rank);
                          client->Fail(absl::UnavailableError(
                              "the store (rank 0, host h0, pid 1) was lost: connection reset"));
                        });
}

void Process::LoseSession() {
  if (dead_ || store_lost_) return;
  world_->checker.OnProcessAtFault(incarnation_, world_->executor->Now());
  ForEachLive([](Attempt& attempt) { attempt.OnCutOff(); });
  NoteGone(absl::ZeroDuration());
  world_->store.DeclareLost(rank_);
  // Perhaps for the same reason: it is about to say so, and does not know that nobody listens.
  if (world_->chooser->Chance(50)) {
    Run([this] { ForEachLive([](Attempt& attempt) { attempt.Abort("while it was fenced"); }); });
  }
}

void Process::Pause(absl::Duration duration) {
  if (dead_ || paused_) return;
  world_->journal.Write(world_->executor->Now(), rank_,
                        absl::StrCat("stopped for ", absl::FormatDuration(duration)));
  paused_ = true;
  link_->SetStopped(true);
  paused_at_ = world_->executor->Now();
  const Scenario& scenario = world_->scenario;
  if (duration > scenario.harmless_stop()) {
    // Its next beat is under way for a while.
    const absl::Duration beat = scenario.heartbeat_timeout / store_internal::kBeatsPerTimeout;
    world_->checker.OnProcessAtFault(incarnation_, paused_at_,
                                     paused_at_ + duration + beat + scenario.latency());
  }
  if (duration > world_->checker.SilenceBound()) NoteGone(world_->checker.SilenceBound());
  ForEachLive([](Attempt& attempt) { attempt.OnStopped(); });
  world_->executor->PostAt(paused_at_ + duration, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Resume();
  });
}

void Process::Resume() {
  if (dead_ || !paused_) return;
  world_->schedule->Touch(rank_);
  world_->journal.Write(world_->executor->Now(), rank_, "goes on");
  paused_ = false;
  link_->SetStopped(false);
  const absl::Time now = world_->executor->Now();
  if (!store_lost_) {
    world_->checker.OnProcessBack({era_, rank_, incarnation_, absl::ZeroDuration()}, now);
  }
  ForEachLive([this, now](Attempt& attempt) { attempt.OnResumed(now - paused_at_); });
  for (const std::function<void()>& step : std::exchange(held_, {})) {
    if (!dead_) step();
  }
}

void Process::Slow(absl::Duration duration) {
  world_->journal.Write(world_->executor->Now(), rank_,
                        absl::StrCat("slow for ", absl::FormatDuration(duration)));
  slow_until_ = world_->executor->Now() + duration;
}

void Process::JumpClock(absl::Duration by) {
  if (dead_) return;
  world_->journal.Write(world_->executor->Now(), rank_,
                        absl::StrCat("its clock leaps by ", absl::FormatDuration(by)));
  ForEachLive([by](Attempt& attempt) { attempt.OnClockLeap(by); });
  clock_->Jump(by);
}

void Process::CloseAll() {
  Run([this] { ForEachLive([](Attempt& attempt) { attempt.Close(); }); });
}

void Process::Leave() {
  if (dead_ || left_) return;
  left_ = true;
  client_->Leave("done", clock_->Now() + absl::Seconds(1), [](absl::Status) {});
}

}  // namespace muster::simulation

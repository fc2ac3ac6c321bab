#include "muster/core/lifecycle/simulation/process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::simulation {

using store_internal::ClientCore;

Process::Process(World* world, int rank, uint64_t incarnation,
                 std::function<void(const Attempt&)> ended)
    : world_(world), rank_(rank), incarnation_(incarnation), ended_(std::move(ended)) {}

absl::Status Process::Begin() {
  client_ = std::make_shared<ClientCore>(&world_->executor);
  SessionInfo info;
  info.rank = rank_;
  info.world_size = world_->scenario.size;
  info.host = absl::StrCat("h", rank_);
  info.pid = static_cast<int64_t>(incarnation_ % 10000);
  info.incarnation = incarnation_;
  absl::StatusOr<std::shared_ptr<Link>> link = world_->store.Open(info, client_);
  if (!link.ok()) return link.status();
  link_ = *std::move(link);
  world_->journal.Write(world_->executor.Now(), rank_,
                        absl::StrCat("a process starts, incarnation ", incarnation_));
  const auto watch = [this](absl::string_view prefix,
                            void (Process::*changed)(absl::StatusOr<std::vector<WatchEvent>>)) {
    client_->Watch(
        prefix, [weak = weak_from_this(), changed](absl::StatusOr<std::vector<WatchEvent>> events) {
          auto self = weak.lock();
          if (self == nullptr) return;
          self->Run(
              [raw = self.get(), changed, events = std::move(events)] { (raw->*changed)(events); });
        });
  };
  watch(kSessionKeyPrefix, &Process::OnSessions);
  watch(kGroupKeyPrefix, &Process::OnRecords);
  Beat();
  return absl::OkStatus();
}

void Process::Run(std::function<void()> step) {
  if (dead_) return;
  if (paused_) {
    held_.push_back(std::move(step));
  } else {
    step();
  }
}

void Process::After(absl::Duration delay, std::function<void(Process&)> step) {
  world_->executor.PostAt(world_->executor.Now() + delay,
                          [weak = weak_from_this(), step = std::move(step)] {
                            if (auto self = weak.lock()) {
                              self->Run([raw = self.get(), step] { step(*raw); });
                            }
                          });
}

void Process::Beat() {
  if (dead_ || left_ || store_lost_) return;
  link_->Send(store_internal::Request());
  After(world_->scenario.heartbeat_timeout / 10, [](Process& self) { self.Beat(); });
}

// --- what happens to it

void Process::Kill() {
  if (dead_) return;
  world_->journal.Write(world_->executor.Now(), rank_, "KILLED");
  dead_ = true;
  if (current_ != nullptr && !current_->terminal()) current_->Die();
  link_->Cut();
  const bool host_is_gone = world_->random.Chance(25);
  const absl::Duration notice =
      host_is_gone ? 3 * world_->scenario.heartbeat_timeout
                   : world_->random.Between(absl::ZeroDuration(), absl::Milliseconds(30));
  world_->executor.PostAt(world_->executor.Now() + notice,
                          [link = link_] { link->Disconnect("its connection closed"); });
  client_->Shutdown(absl::CancelledError("killed"));
}

void Process::Exit() {
  if (dead_) return;
  world_->journal.Write(world_->executor.Now(), rank_, "EXITS");
  client_->Leave("it exited", world_->executor.Now() + absl::Seconds(1), [](absl::Status) {});
  if (current_ != nullptr && !current_->terminal()) current_->Die();
  dead_ = true;
  world_->executor.PostAt(world_->executor.Now() + absl::Milliseconds(100), [link = link_] {
    link->Cut();
    link->Disconnect("its connection closed");
  });
}

void Process::LoseStore() {
  if (dead_ || store_lost_) return;
  world_->journal.Write(world_->executor.Now(), rank_, "LOSES the store");
  if (current_ != nullptr) current_->OnCutOff();
  link_->Cut();
  const auto some_time = [this] {
    return world_->random.Between(absl::ZeroDuration(), absl::Milliseconds(200));
  };
  world_->executor.PostAt(world_->executor.Now() + some_time(),
                          [link = link_] { link->Disconnect("its connection closed"); });
  world_->executor.PostAt(world_->executor.Now() + some_time(), [client = client_] {
    client->Fail(
        absl::UnavailableError("the store (rank 0, host h0, pid 1) was lost: connection reset"));
  });
}

void Process::Pause(absl::Duration duration) {
  if (dead_ || paused_) return;
  world_->journal.Write(world_->executor.Now(), rank_,
                        absl::StrCat("STOPPED for ", absl::FormatDuration(duration)));
  paused_ = true;
  if (current_ != nullptr) current_->OnStopped();
  paused_at_ = world_->executor.Now();
  world_->executor.PostAt(paused_at_ + duration, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Resume();
  });
}

void Process::Resume() {
  if (dead_ || !paused_) return;
  world_->journal.Write(world_->executor.Now(), rank_, "goes on");
  paused_ = false;
  if (current_ != nullptr) current_->OnPaused(world_->executor.Now() - paused_at_);
  for (std::function<void()>& step : std::exchange(held_, {})) Run(std::move(step));
}

void Process::CloseAll() {
  Run([this] {
    if (busy()) current_->Close();
  });
}

void Process::Leave() {
  if (dead_ || left_) return;
  left_ = true;
  client_->Leave("done", world_->executor.Now() + absl::Seconds(1), [](absl::Status) {});
}

void Process::CheckBounds() {
  if (!dead_ && !paused_ && current_ != nullptr) current_->CheckBounds();
}

void Process::Report(Checker& checker) const {
  for (const std::shared_ptr<Attempt>& attempt : attempts_) checker.OnEnded(attempt->life());
}

// --- news

void Process::OnSessions(absl::StatusOr<std::vector<WatchEvent>> events) {
  if (!events.ok()) return OnStoreLost(events.status());
  for (const WatchEvent& event : *events) {
    absl::StatusOr<SessionRecord> session = SessionRecord::Decode(event.entry.value);
    if (!session.ok()) continue;
    sessions_[session->rank] = *session;
    if (current_ != nullptr) current_->OnSession(*session);
  }
  if (!std::exchange(have_sessions_, true) && have_records_) NextAttempt();
}

void Process::OnRecords(absl::StatusOr<std::vector<WatchEvent>> events) {
  if (!events.ok()) return OnStoreLost(events.status());
  for (const WatchEvent& event : *events) {
    absl::StatusOr<GroupRecord> record = GroupRecord::Decode(event.entry.value);
    if (!record.ok()) {
      world_->checker.Violate(
          absl::StrCat("a record that cannot be read: ", record.status().message()));
      continue;
    }
    world_->checker.OnRecord(event.entry.revision, *record);
    if (world_->mutation == Mutation::kDropNews && world_->random.Chance(30)) continue;
    if (event.entry.revision > record_revision_) {
      record_ = *record;
      record_revision_ = event.entry.revision;
    }
    if (current_ != nullptr) current_->OnRecord(event.entry.revision, *record);
  }
  if (!std::exchange(have_records_, true) && have_sessions_) NextAttempt();
}

void Process::Learn(Revision revision, const GroupRecord& record) {
  if (revision <= record_revision_) return;
  record_ = record;
  record_revision_ = revision;
}

void Process::OnStoreLost(const absl::Status& why) {
  if (std::exchange(store_lost_, true) || left_) return;
  if (current_ != nullptr) current_->OnStoreLost(why);
}

// --- its groups

Introduction Process::Introduce() {
  Introduction introduction;
  introduction.incarnation = incarnation_;
  introduction.host = absl::StrCat("h", rank_);
  introduction.pid = 1;
  introduction.identity["backend"] = world_->Trouble(20) ? "reference" : "gloo";
  introduction.offers = {"gloo", "reference"};
  if (world_->Trouble(20)) {
    introduction.refusal = absl::NotFoundError("no backend 'gloo' is linked in");
  }
  return introduction;
}

void Process::NextAttempt() {
  if (world_->over || store_lost_ || busy()) return;
  auto attempt = std::make_shared<Attempt>(world_, this, Introduce(), rank_,
                                           static_cast<int>(attempts_.size()) + 1);
  attempts_.push_back(attempt);
  current_ = attempt.get();
  if (record_.has_value() && world_->mutation != Mutation::kForgetGenerations) {
    current_->OnRecord(record_revision_, *record_);
  }
  current_->Start();
  for (const auto& [rank, session] : std::map<int, SessionRecord>(sessions_)) {
    current_->OnSession(session);
  }
}

void Process::OnTerminal() {
  ended_(*current_);
  // Sometimes at once: re-creating works without sleeps.
  const absl::Duration rest =
      world_->random.Chance(30)
          ? absl::ZeroDuration()
          : world_->random.Between(absl::ZeroDuration(), absl::Milliseconds(40));
  After(rest, [](Process& self) { self.NextAttempt(); });
}

}  // namespace muster::simulation

#include "muster/core/lifecycle/simulation/process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "muster/core/lifecycle/pool_decision.h"

namespace muster::simulation {

using store_internal::ClientCore;

Process::Process(World* world, int rank, uint64_t incarnation,
                 std::function<void(const Attempt&)> ended)
    : world_(world),
      rank_(rank),
      incarnation_(incarnation),
      info_{rank, world->scenario.size, absl::StrCat("h", rank),
            static_cast<int64_t>(incarnation % 10000), incarnation},
      era_(world->store.era()),
      ended_(std::move(ended)),
      // No two clocks show the same.
      clock_(std::make_shared<ProcessClock>(world->executor,
                                            absl::Seconds(world->chooser->Below(100000)))) {
  for (const std::string& name : GroupNames(world->scenario)) slots_[name];
}

absl::Status Process::Begin() {
  client_ = std::make_shared<ClientCore>(clock_.get());
  absl::StatusOr<std::shared_ptr<Link>> link = world_->store.Open(info_, client_);
  if (!link.ok()) return link.status();
  link_ = *std::move(link);
  world_->journal.Write(world_->executor->Now(), rank_,
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

bool Process::busy() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
    return slot.second.current != nullptr && !slot.second.current->terminal();
  });
}

void Process::ForEachLive(const std::function<void(Attempt&)>& tell) {
  for (const auto& [name, slot] : slots_) {
    const std::shared_ptr<Attempt> attempt = slot.current;
    if (attempt != nullptr && !attempt->terminal()) tell(*attempt);
  }
}

void Process::Run(std::function<void()> step) {
  if (dead_) return;
  world_->schedule->Touch(rank_);
  const absl::Time now = world_->executor->Now();
  if (late_ > 0 || now < slow_until_) {  // in order, each a little late
    const absl::Duration lag =
        world_->chooser->Between(absl::ZeroDuration(), world_->scenario.slowness);
    late_until_ = std::max(late_until_, now < slow_until_ ? now + lag : now);
    ++late_;
    world_->executor->PostAt(late_until_, [weak = weak_from_this(), step = std::move(step)] {
      if (auto self = weak.lock()) self->RunLate(step);
    });
  } else if (paused_) {
    held_.push_back(std::move(step));
  } else {
    step();
  }
}

void Process::RunLate(const std::function<void()>& step) {
  --late_;
  if (dead_) return;
  paused_ ? held_.push_back(step) : step();
}

void Process::After(absl::Duration delay, std::function<void(Process&)> step) {
  world_->schedule->Add({Lane::Kind::kOwner, rank_, 0}, delay,
                        [weak = weak_from_this(), step = std::move(step)] {
                          if (auto self = weak.lock()) {
                            self->Run([raw = self.get(), step] { step(*raw); });
                          }
                        });
}

void Process::Beat() {
  const absl::Duration timeout = world_->scenario.heartbeat_timeout;
  if (dead_ || left_ || store_lost_ || timeout == absl::InfiniteDuration()) return;
  link_->Send(store_internal::Request());
  world_->executor->PostAt(world_->executor->Now() + timeout / 10, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Run([raw = self.get()] { raw->Beat(); });
  });
}

void Process::CheckBounds() {
  if (!dead_ && !paused_) ForEachLive([](Attempt& attempt) { attempt.CheckBounds(); });
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
    // As the runtime does (StoreNews): who had left before we came may come again.
    if (!have_sessions_ && session->liveness == SessionRecord::Liveness::kLeft) continue;
    sessions_[session->rank] = *session;
    for (const auto& [name, slot] : slots_) {
      if (slot.current != nullptr) slot.current->OnSession(*session);
    }
  }
  if (!std::exchange(have_sessions_, true) && have_records_) NextRound();
}

void Process::OnRecords(absl::StatusOr<std::vector<WatchEvent>> events) {
  if (!events.ok()) return OnStoreLost(events.status());
  for (const WatchEvent& event : *events) {
    const std::string name(absl::StripPrefix(event.entry.key, kGroupKeyPrefix));
    absl::StatusOr<GroupRecord> record = GroupRecord::Decode(event.entry.value);
    if (!record.ok()) {
      world_->checker.Violate(
          absl::StrCat("L8: a record that cannot be read: ", record.status().message()));
      continue;
    }
    world_->checker.OnRecord(era_, name, event.entry.revision, *record, world_->executor->Now());
    if (world_->mutation == Mutation::kDropNews && world_->chooser->Chance(30)) continue;
    Learn(name, event.entry.revision, *record);
    // Those that have ended hear it, too.
    if (slots_[name].current != nullptr) {
      slots_[name].current->OnRecord(event.entry.revision, *record);
    }
  }
  if (!std::exchange(have_records_, true) && have_sessions_) NextRound();
}

void Process::Learn(const std::string& name, Revision revision, const GroupRecord& record) {
  Slot& slot = slots_[name];
  if (revision <= slot.revision) return;
  slot.record = record;
  slot.revision = revision;
}

void Process::OnStoreLost(const absl::Status& why) {
  if (std::exchange(store_lost_, true) || left_) return;
  NoteGone(kNoticesCutOff);
  for (const auto& [name, slot] : slots_) {
    if (slot.current != nullptr) slot.current->OnStoreLost(why);
  }
}

// --- its pool

Introduction Process::Introduce() {
  Introduction introduction;
  introduction.incarnation = incarnation_;
  introduction.host = absl::StrCat("h", rank_);
  introduction.pid = 1;
  introduction.identity["backend"] =
      world_->Strikes(Fault::kOtherIdentity, 20, rank_) ? "reference" : "gloo";
  introduction.offers = {"gloo", "reference"};
  if (world_->Strikes(Fault::kRefusal, 20, rank_)) {
    introduction.refusal = absl::NotFoundError("no backend 'gloo' is linked in");
  }
  return introduction;
}

void Process::NextRound() {
  if (world_->over || dead_ || store_lost_ || busy() || !to_acquire_.empty()) return;
  if (!have_sessions_ || !have_records_) return;  // it begins by itself
  if (++rounds_ > world_->scenario.rounds && !world_->calm) return;
  const std::vector<std::string> names = GroupNames(world_->scenario);
  to_acquire_.assign(names.begin(), names.end());
  if (names.size() > 1 && world_->Strikes(Fault::kOtherOrder, 150, rank_)) {
    std::reverse(to_acquire_.begin(), to_acquire_.end());
  }
  AcquireNext();
}

void Process::AcquireNext() {
  if (world_->over || store_lost_) to_acquire_.clear();
  if (to_acquire_.empty() || acquiring_ != nullptr) return;
  const std::string name = to_acquire_.front();
  to_acquire_.pop_front();
  Make(name);
}

void Process::Make(const std::string& name) {
  Slot& slot = slots_[name];
  auto attempt = std::make_shared<Attempt>(world_, this, name, Introduce(), rank_,
                                           static_cast<int>(attempts_.size()) + 1);
  attempts_.push_back(attempt);
  slot.current = attempt;
  acquiring_ = attempt.get();
  if (slot.record.has_value() && world_->mutation != Mutation::kForgetGenerations) {
    attempt->OnRecord(slot.revision, *slot.record);
  }
  attempt->Start();
  for (const auto& [rank, session] : std::map<int, SessionRecord>(sessions_)) {
    if (session.liveness != SessionRecord::Liveness::kLeft) attempt->OnSession(session);
  }
}

void Process::OnChanged(Attempt& attempt) {
  if (acquiring_ == &attempt && attempt.settled()) {
    acquiring_ = nullptr;
    // A program whose Acquire fails begins again with the first name; else ranks could wait for
    // each other in different names for ever.
    if (world_->calm && !attempt.life().was_ready) to_acquire_.clear();
    After(absl::ZeroDuration(), [](Process& self) { self.AcquireNext(); });
  }
  if (!attempt.terminal()) return;
  ended_(attempt);
  // Sometimes at once: re-creating works without sleeps.
  const absl::Duration most =
      attempt.life().was_ready || world_->calm ? absl::Milliseconds(40) : absl::Milliseconds(150);
  const absl::Duration rest = world_->chooser->Chance(30)
                                  ? absl::ZeroDuration()
                                  : world_->chooser->Between(absl::ZeroDuration(), most);
  After(rest, [](Process& self) { self.NextRound(); });
}

void Process::AcquireAgain(Attempt& attempt, bool another) {
  NamedGroup group;
  group.exists = true;
  group.id = attempt.id();
  group.state = attempt.life().state;
  group.voting = attempt.voting();
  if (attempt.held()) group.holders = "trainer.cc:88";
  if (another) group.difference = "backend: gloo here, reference wanted";
  Tally& tally = world_->checker.tally();
  switch (DecideAcquire(group).kind) {
    case AcquireDecision::Kind::kReuse:
      ++tally.reused;
      return attempt.HandOut();
    case AcquireDecision::Kind::kPropose:
      return attempt.Propose();
    case AcquireDecision::Kind::kRefuse:
      ++tally.refused_acquires;
      return;
    case AcquireDecision::Kind::kWait:
      ++tally.waiting_acquires;
      return;
    case AcquireDecision::Kind::kCreate:
      return;  // the next round does
  }
}

}  // namespace muster::simulation

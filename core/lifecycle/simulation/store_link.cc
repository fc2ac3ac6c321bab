#include "muster/core/lifecycle/simulation/store_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "muster/core/lifecycle/simulation/world.h"

namespace muster::simulation {

using store_internal::Request;
using store_internal::Response;
using store_internal::StoreEngine;

// --- one connection

void Link::SetStopped(bool stopped) {
  stopped_ = stopped;
  if (stopped) return;
  for (Request& request : std::exchange(unsent_, {})) Send(std::move(request));
}

void Link::Send(Request request) {
  if (cut_) return;
  if (stopped_) return unsent_.push_back(std::move(request));
  store_->world_->schedule->Add(
      {Lane::Kind::kToStore, info_.rank, info_.incarnation}, store_->Delay(),
      [self = shared_from_this(), request = std::move(request)] { self->Arrive(request); });
}

void Link::Arrive(Request request) {
  if (disconnected_ || deaf_) return;
  store_->world_->schedule->Touch(kStorePart);
  if (store_->paused_) {
    store_->held_.push_back([self = shared_from_this(), request = std::move(request)]() mutable {
      self->Handle(std::move(request));
    });
  } else {
    Handle(std::move(request));
  }
}

void Link::Handle(Request request) {
  if (disconnected_) return;
  SimulatedStore& store = *store_;
  if (store.world_->mutation == Mutation::kBlindWrites &&
      request.type == Request::Type::kCompareAndSet) {
    request.expected = store.revisions_[request.key];
  }
  const SimulatedStore::Footprint before = fenced_ ? store.Measure() : SimulatedStore::Footprint();
  store.engine_->Handle(session_, request, store.world_->executor->Now());
  if (fenced_) {
    if (request.type != Request::Type::kHeartbeat) ++store.world_->checker.tally().fenced_requests;
    if (store.Measure() != before) {
      store.world_->checker.Violate(absl::StrCat(
          "L8: rank ", info_.rank, " (incarnation ", info_.incarnation,
          ") was declared lost, and what it sent for '", request.key, "' still changed something"));
    }
  }
  store.Touched();
}

void Link::Send(const Response& response) {
  World& world = *store_->world_;
  for (const WatchEvent& event : response.events) {
    Revision& revision = store_->revisions_[event.entry.key];
    revision = std::max(revision, event.entry.revision);
  }
  if (cut_) return;
  absl::Duration delay = store_->Delay();
  Lane lane{Lane::Kind::kFromStore, info_.rank, info_.incarnation};
  if (response.kind == Response::Kind::kWatchBatch &&
      world.scenario.held_news > absl::ZeroDuration() &&
      world.Strikes(Fault::kHeldNews, 60, info_.rank)) {
    delay += world.chooser->Between(absl::ZeroDuration(), world.scenario.held_news);
  }
  if (world.mutation == Mutation::kReorderNews) {
    lane.kind = Lane::Kind::kOwner;  // not ordered
    if (world.chooser->Chance(30)) delay += absl::Milliseconds(40);
  }
  world.schedule->Add(lane, delay, [self = shared_from_this(), response] {
    if (self->cut_) return;
    self->store_->world_->schedule->Touch(self->info_.rank);
    if (auto core = self->core_.lock()) core->Deliver(response);
  });
}

void Link::Cut(bool loses_what_is_under_way) {
  cut_ = true;
  deaf_ |= loses_what_is_under_way;
}

void Link::Disconnect(absl::string_view reason) {
  if (disconnected_) return;
  disconnected_ = true;
  store_->world_->schedule->Touch(kStorePart);
  store_->engine_->Disconnect(session_, reason, store_->world_->executor->Now());
  store_->Touched();
  store_->links_.erase(session_);
}

// --- the store

SimulatedStore::SimulatedStore(World* world) : world_(world), engine_(NewEngine()) {}

std::unique_ptr<StoreEngine> SimulatedStore::NewEngine() {
  StoreEngine::Options options;
  options.world_size = world_->scenario.size;
  options.loss_grace = world_->scenario.loss_grace;
  options.on_session = [this](const SessionRecord& session) { OnSession(session); };
  return std::make_unique<StoreEngine>(options);
}

absl::StatusOr<std::shared_ptr<Link>> SimulatedStore::Open(
    const SessionInfo& info, const std::shared_ptr<store_internal::ClientCore>& core) {
  world_->schedule->Touch(kStorePart);
  if (paused_) return absl::UnavailableError("the store does not answer");
  auto link = std::make_shared<Link>(this, info);
  absl::StatusOr<StoreEngine::SessionId> session =
      engine_->Open(info, world_->scenario.heartbeat_timeout, link.get(), world_->executor->Now());
  if (!session.ok()) return session.status();
  link->session_ = *session;
  link->core_ = core;
  links_[*session] = link;
  core->SetChannel(link);
  Touched();
  return link;
}

SimulatedStore::Footprint SimulatedStore::Measure() const {
  Revision last = 0;
  for (const Entry& entry : engine_->Entries("")) last = std::max(last, entry.revision);
  return {engine_->keys(), engine_->waiting_gathers(), engine_->open_sessions(), last};
}

void SimulatedStore::OnSession(const SessionRecord& session) {
  if (session.liveness != SessionRecord::Liveness::kLost) return;
  for (const auto& [id, link] : links_) {
    if (link->info_.rank == session.rank && link->info_.incarnation == session.incarnation) {
      link->fenced_ = true;
    }
  }
  world_->checker.OnSessionLost(session, world_->executor->Now());
}

void SimulatedStore::Pause(absl::Duration duration) {
  if (paused_) return;
  paused_ = true;
  world_->executor->PostAt(world_->executor->Now() + duration, [this] { Resume(); });
}

void SimulatedStore::Resume() {
  if (!std::exchange(paused_, false)) return;
  world_->journal.Write(world_->executor->Now(), -1, "the store goes on");
  for (const auto& request : std::exchange(held_, {})) request();
  engine_->Tick(world_->executor->Now());
  armed_ = absl::InfinitePast();
  Touched();
}

void SimulatedStore::Restart() {
  for (const auto& [id, link] : links_) {
    link->Cut(/*loses_what_is_under_way=*/true);
    link->disconnected_ = true;
  }
  links_.clear();
  held_.clear();
  revisions_.clear();
  paused_ = false;
  ++era_;
  engine_ = NewEngine();
  armed_ = absl::InfinitePast();
  Touched();
}

void SimulatedStore::DeclareLost(int rank) {
  world_->schedule->Touch(kStorePart);
  engine_->DeclareLost(rank, "a launcher says so");
  Touched();
}

absl::Duration SimulatedStore::Delay() {
  const Scenario& scenario = world_->scenario;
  if (scenario.rough && world_->Strikes(Fault::kHeldMessage, 30, -1)) {
    return world_->chooser->Between(absl::ZeroDuration(), absl::Milliseconds(600));
  }
  if (scenario.even) return scenario.max_delay;
  return world_->chooser->Between(absl::ZeroDuration(), scenario.max_delay);
}

void SimulatedStore::Touched() {
  const absl::Time next = engine_->NextTick();
  if (next == armed_) return;
  world_->executor->Cancel(timer_);
  armed_ = next;
  timer_ = world_->executor->PostAt(next, [this] {
    armed_ = absl::InfiniteFuture();
    if (paused_) return;  // it looks when it goes on
    engine_->Tick(world_->executor->Now());
    Touched();
  });
}

}  // namespace muster::simulation

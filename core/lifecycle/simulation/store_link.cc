#include "muster/core/lifecycle/simulation/store_link.h"

#include <algorithm>
#include <utility>

namespace muster::simulation {

using store_internal::Request;
using store_internal::Response;
using store_internal::StoreEngine;

namespace {

StoreEngine::Options EngineOptions(const Scenario& scenario) {
  StoreEngine::Options options;
  options.world_size = scenario.size;
  options.loss_grace = scenario.loss_grace;
  return options;
}

}  // namespace

void Link::Send(Request request) {
  if (cut_) return;
  store_->executor_->PostAt(store_->ArrivalAfter(&up_),
                            [self = shared_from_this(), request = std::move(request)]() mutable {
                              if (self->disconnected_ || self->cut_) return;
                              SimulatedStore& store = *self->store_;
                              if (store.mutation_ == Mutation::kBlindWrites &&
                                  request.type == Request::Type::kCompareAndSet) {
                                request.expected = store.revisions_[request.key];
                              }
                              store.engine_.Handle(self->session_, request, store.executor_->Now());
                              store.Touched();
                            });
}

void Link::Send(const Response& response) {
  for (const WatchEvent& event : response.events) {
    store_->revisions_[event.entry.key] =
        std::max(store_->revisions_[event.entry.key], event.entry.revision);
  }
  if (cut_) return;
  absl::Time arrival = store_->ArrivalAfter(&down_);
  if (store_->mutation_ == Mutation::kReorderNews) {
    down_ = absl::InfinitePast();
    if (store_->random_->Chance(30)) arrival += absl::Milliseconds(40);
  }
  store_->executor_->PostAt(arrival, [self = shared_from_this(), response]() {
    if (self->cut_) return;
    if (auto core = self->core_.lock()) core->Deliver(response);
  });
}

void Link::Disconnect(absl::string_view reason) {
  if (disconnected_) return;
  disconnected_ = true;
  store_->engine_.Disconnect(session_, reason, store_->executor_->Now());
  store_->Touched();
  store_->links_.erase(session_);
}

SimulatedStore::SimulatedStore(const Scenario& scenario, Mutation mutation,
                               ManualExecutor* executor, Random* random)
    : scenario_(scenario),
      mutation_(mutation),
      executor_(executor),
      random_(random),
      engine_(EngineOptions(scenario)) {}

absl::StatusOr<std::shared_ptr<Link>> SimulatedStore::Open(
    const SessionInfo& info, const std::shared_ptr<store_internal::ClientCore>& core) {
  auto link = std::make_shared<Link>(this);
  absl::StatusOr<StoreEngine::SessionId> session =
      engine_.Open(info, scenario_.heartbeat_timeout, link.get(), executor_->Now());
  if (!session.ok()) return session.status();
  link->session_ = *session;
  link->core_ = core;
  links_[*session] = link;
  core->SetChannel(link);
  Touched();
  return link;
}

absl::Duration SimulatedStore::Delay() {
  if (!calm_ && scenario_.rough && random_->PerMille(30)) {
    return random_->Between(absl::ZeroDuration(), absl::Milliseconds(600));
  }
  if (scenario_.even) return scenario_.max_delay;
  return random_->Between(absl::ZeroDuration(), scenario_.max_delay);
}

absl::Time SimulatedStore::ArrivalAfter(absl::Time* last) {
  *last = std::max(*last, executor_->Now() + Delay());
  return *last;
}

void SimulatedStore::Touched() {
  const absl::Time next = engine_.NextTick();
  if (next == armed_) return;
  executor_->Cancel(timer_);
  armed_ = next;
  if (next == absl::InfiniteFuture()) return;
  timer_ = executor_->PostAt(next, [this] {
    armed_ = absl::InfiniteFuture();
    engine_.Tick(executor_->Now());
    Touched();
  });
}

}  // namespace muster::simulation

// The real store, engine and client, with a network between them that delays.
//
// One Link is one session's connection. Messages of one direction keep their order, as on a socket,
// unless a mutation says otherwise.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_STORE_LINK_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_STORE_LINK_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/simulation/scenario.h"
#include "muster/core/platform/manual_executor.h"
#include "muster/core/store/client_core.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/store_engine.h"

namespace muster::simulation {

class SimulatedStore;

class Link final : public store_internal::ClientCore::Channel,
                   public store_internal::StoreEngine::Sink,
                   public std::enable_shared_from_this<Link> {
 public:
  explicit Link(SimulatedStore* store) : store_(store) {}

  void Send(store_internal::Request request) override;           // from the client
  void Send(const store_internal::Response& response) override;  // from the engine

  // What the client says from now on is not heard, and it hears nothing.
  void Cut() { cut_ = true; }
  // The engine notices.
  void Disconnect(absl::string_view reason);

 private:
  friend class SimulatedStore;

  SimulatedStore* const store_;
  std::weak_ptr<store_internal::ClientCore> core_;
  store_internal::StoreEngine::SessionId session_ = 0;
  absl::Time up_ = absl::InfinitePast();  // when the last message arrives
  absl::Time down_ = absl::InfinitePast();
  bool cut_ = false;
  bool disconnected_ = false;
};

class SimulatedStore {
 public:
  SimulatedStore(const Scenario& scenario, Mutation mutation, ManualExecutor* executor,
                 Random* random);

  // Connects `core` and gives its link.
  absl::StatusOr<std::shared_ptr<Link>> Open(
      const SessionInfo& info, const std::shared_ptr<store_internal::ClientCore>& core);

  // From now on nothing is held up.
  void CalmDown() { calm_ = true; }

  const store_internal::StoreEngine& engine() const { return engine_; }

 private:
  friend class Link;

  absl::Duration Delay();
  absl::Time ArrivalAfter(absl::Time* last);
  void Touched();

  const Scenario scenario_;
  const Mutation mutation_;
  ManualExecutor* const executor_;
  Random* const random_;
  store_internal::StoreEngine engine_;
  bool calm_ = false;
  Executor::TimerId timer_ = 0;
  absl::Time armed_ = absl::InfiniteFuture();
  std::map<std::string, Revision> revisions_;  // for blind writes
  // The engine wants a sink until it is disconnected.
  std::map<store_internal::StoreEngine::SessionId, std::shared_ptr<Link>> links_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_STORE_LINK_H_

// The real store, engine and client, with a network between them that delays.
//
// One Link is one session's connection. Messages of one direction keep their order, as on a socket,
// unless a mutation says otherwise.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_STORE_LINK_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_STORE_LINK_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/executor.h"
#include "muster/core/store/client_core.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/store_engine.h"

namespace muster::simulation {

struct World;
class SimulatedStore;

class Link final : public store_internal::ClientCore::Channel,
                   public store_internal::StoreEngine::Sink,
                   public std::enable_shared_from_this<Link> {
 public:
  Link(SimulatedStore* store, const SessionInfo& info) : store_(store), info_(info) {}

  void Send(store_internal::Request request) override;           // from the client
  void Send(const store_internal::Response& response) override;  // from the engine

  // What the client says from now on is not heard, and it hears nothing. What it said before may
  // still arrive.
  void Cut(bool loses_what_is_under_way);
  // Its process is stopped: what a timer of the client wants to say waits until it goes on.
  void SetStopped(bool stopped);
  // The engine notices.
  void Disconnect(absl::string_view reason);

 private:
  friend class SimulatedStore;

  void Arrive(store_internal::Request request);
  void Handle(store_internal::Request request);

  SimulatedStore* const store_;
  const SessionInfo info_;
  std::weak_ptr<store_internal::ClientCore> core_;
  store_internal::StoreEngine::SessionId session_ = 0;
  bool stopped_ = false;
  std::vector<store_internal::Request> unsent_;  // while it is
  bool cut_ = false;
  bool deaf_ = false;  // nothing more arrives from the client
  bool disconnected_ = false;
  bool fenced_ = false;
};

class SimulatedStore {
 public:
  explicit SimulatedStore(World* world);

  // Connects `core` and gives its link.
  absl::StatusOr<std::shared_ptr<Link>> Open(
      const SessionInfo& info, const std::shared_ptr<store_internal::ClientCore>& core);

  // --- what happens to it
  // It is stopped, and reads all its input before it judges anybody when it goes on.
  void Pause(absl::Duration duration);
  void Resume();
  // It ends with all that it knows. The next one is empty; whoever was connected is cut off.
  void Restart();
  // A launcher is mistaken: that rank's session ends though its process lives.
  void DeclareLost(int rank);

  // Which store this is: 1, 2, ...
  int era() const { return era_; }
  bool paused() const { return paused_; }
  const store_internal::StoreEngine& engine() const { return *engine_; }

 private:
  friend class Link;

  // What a request may change: keys, gathers that wait, sessions, the latest revision.
  using Footprint = std::tuple<size_t, size_t, size_t, Revision>;
  Footprint Measure() const;

  std::unique_ptr<store_internal::StoreEngine> NewEngine();
  void OnSession(const SessionRecord& session);
  absl::Duration Delay();
  void Touched();

  World* const world_;
  std::unique_ptr<store_internal::StoreEngine> engine_;
  int era_ = 1;
  bool paused_ = false;
  std::vector<std::function<void()>> held_;  // requests, while it is stopped
  Executor::TimerId timer_ = 0;
  absl::Time armed_ = absl::InfiniteFuture();
  std::map<std::string, Revision> revisions_;  // of what the watches told
  // The engine wants a sink until it is disconnected.
  std::map<store_internal::StoreEngine::SessionId, std::shared_ptr<Link>> links_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_STORE_LINK_H_

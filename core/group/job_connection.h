// This process's place in its job: the control thread and the session in the job's store.
#ifndef MUSTER_CORE_GROUP_JOB_CONNECTION_H_
#define MUSTER_CORE_GROUP_JOB_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/rendezvous/world.h"
#include "muster/core/store/memory_store.h"
#include "muster/core/store/store.h"

namespace muster {

class TcpStoreServer;

// Destroyed in reverse: the session, the server (rank 0 of a job without a launcher), the thread.
struct JobConnection {
  JobConnection();
  JobConnection(JobConnection&&) noexcept;
  // Would end the thread before the store that uses it.
  JobConnection& operator=(JobConnection&&) = delete;
  ~JobConnection();

  // Ends the session's server, if this rank has it, once every session has ended or at `deadline`:
  // the store's host leaves last.
  void StopServing(absl::Time deadline);
  // From now on StopServing, also one that waits already on another thread, waits for no session.
  void ServeNoLonger();

  std::unique_ptr<ControlThread> control;
  std::unique_ptr<TcpStoreServer> tcp_server;        // where this rank serves the job's store
  std::unique_ptr<MemoryStoreServer> memory_server;  // a world of one rank
  std::unique_ptr<Store> store;
  uint64_t incarnation = 0;
  std::string host;
  int64_t pid = 0;
  // Where this rank's groups listen: its address on the network of the store.
  std::string bind_address = "127.0.0.1";
};

// Joins the job of `world` by `deadline`: serves its store where the world says so, and opens a
// session in it. The store is served to other hosts only when the world has a token. Errors name
// the address, what was seen and what to do.
absl::StatusOr<JobConnection> OpenJobConnection(const World& world, absl::Time deadline,
                                                absl::Duration heartbeat_timeout);

// For tests whose ranks are threads of one process: a session in `server`, which outlives it.
absl::StatusOr<JobConnection> OpenJobConnection(const World& world, MemoryStoreServer& server);

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_JOB_CONNECTION_H_

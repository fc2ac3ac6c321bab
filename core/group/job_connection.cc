#include "muster/core/group/job_connection.h"

#include <unistd.h>

#include <optional>
#include <random>
#include <utility>

#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "muster/core/platform/endpoint.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/tcp_store.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster {

namespace {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

// Tells this process from every other that has had or will have its rank.
uint64_t NewIncarnation() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

absl::StatusOr<JobConnection> Begin() {
  absl::StatusOr<std::unique_ptr<ControlThread>> control = ControlThread::Start();
  if (!control.ok()) return control.status();
  JobConnection connection;
  connection.control = *std::move(control);
  connection.incarnation = NewIncarnation();
  connection.host = HostName();
  connection.pid = getpid();
  return connection;
}

SessionInfo Session(const World& world, const JobConnection& connection) {
  SessionInfo info;
  info.rank = world.rank;
  info.world_size = world.size;
  info.host = connection.host;
  info.pid = connection.pid;
  info.incarnation = connection.incarnation;
  return info;
}

}  // namespace

JobConnection::JobConnection() = default;
JobConnection::JobConnection(JobConnection&&) noexcept = default;
JobConnection::~JobConnection() = default;

void JobConnection::StopServing(absl::Time deadline) {
  if (tcp_server == nullptr) return;
  if (absl::Status stopped = tcp_server->Stop(deadline); !stopped.ok()) {
    LOG(WARNING) << "the job's store ended before its sessions did: " << stopped.message();
  }
  // As `muster run` says it of its own store in its last lines.
  if (const std::string refused = tcp_server->Statistics().Refused(); !refused.empty()) {
    LOG(WARNING) << "the store refused " << refused;
  }
}

void JobConnection::ServeNoLonger() {
  if (tcp_server != nullptr) tcp_server->StopWaiting();
}

absl::StatusOr<JobConnection> OpenJobConnection(const World& world, MemoryStoreServer& server) {
  absl::StatusOr<JobConnection> connection = Begin();
  if (!connection.ok()) return connection.status();
  absl::StatusOr<std::unique_ptr<MemoryStore>> store =
      server.Connect(Session(world, *connection), connection->control.get());
  if (!store.ok()) return store.status();
  connection->store = *std::move(store);
  return connection;
}

absl::StatusOr<JobConnection> OpenJobConnection(const World& world, absl::Time deadline,
                                                absl::Duration heartbeat_timeout) {
  absl::StatusOr<JobConnection> connection = Begin();
  if (!connection.ok()) return connection.status();
  const SessionInfo session = Session(world, *connection);

  if (world.store_address.empty()) {  // a world of one rank
    connection->memory_server =
        std::make_unique<MemoryStoreServer>(MemoryStoreServer::Options{world.size});
    absl::StatusOr<std::unique_ptr<MemoryStore>> store =
        connection->memory_server->Connect(session, connection->control.get());
    if (!store.ok()) return store.status();
    connection->store = *std::move(store);
    return connection;
  }

  if (!world.serve_address.empty()) {
    TcpStoreServer::Options options;
    options.world_size = world.size;
    options.address = world.serve_address;
    options.lookup_timeout = deadline - MonotonicNow();
    options.token = world.token;
    options.ends_with_its_host = true;
    options.beyond_this_host = !world.token.empty();
    options.served_by =
        absl::StrCat("rank ", world.rank, ", host ", connection->host, ", pid ", connection->pid);
    absl::StatusOr<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::Start(options);
    if (!server.ok()) return server.status();
    connection->tcp_server = *std::move(server);
    const std::optional<Endpoint> bound = ParseEndpoint(connection->tcp_server->address());
    if (world.local_size < world.size && bound.has_value() && IsLoopbackHost(bound->host)) {
      // Many a /etc/hosts gives this host's own name a loopback address.
      LOG(WARNING) << "rank 0 serves the store of " << world.size << " ranks on several hosts at "
                   << bound->ToString() << " (" << world.serve_address
                   << "), which no other host reaches: give MASTER_ADDR as the number of this "
                      "host that they know";
    }
  }
  TcpStore::Options options;
  options.address = world.store_address;
  options.token = world.token;
  options.session = session;
  options.heartbeat_timeout = heartbeat_timeout;
  options.deadline = deadline;
  options.control_thread = connection->control.get();
  absl::StatusOr<std::unique_ptr<TcpStore>> store = TcpStore::Connect(options);
  if (!store.ok()) return store.status();
  // On this host alone every address of it would do, and only this one is known to all backends.
  if (!IsLoopbackHost((*store)->local_host())) connection->bind_address = (*store)->local_host();
  connection->store = *std::move(store);
  return connection;
}

}  // namespace muster

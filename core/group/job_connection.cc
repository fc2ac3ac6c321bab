#include "muster/core/group/job_connection.h"

#include <unistd.h>

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/session_record.h"

namespace muster {

// Until the tcp store lands, a pool over the network is Unimplemented.
class TcpStoreServer {
 public:
  void Stop(absl::Time) {}
};

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
JobConnection& JobConnection::operator=(JobConnection&&) noexcept = default;
JobConnection::~JobConnection() = default;

void JobConnection::StopServing(absl::Time deadline) {
  if (tcp_server != nullptr) tcp_server->Stop(deadline);
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

absl::StatusOr<JobConnection> OpenJobConnection(const World& world, absl::Duration,
                                                absl::Duration) {
  return absl::UnimplementedError(
      absl::StrCat("no store over the network yet: ", world.store_address));
}

}  // namespace muster

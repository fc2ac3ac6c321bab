#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/auth.h"
#include "muster/core/store/store_harness.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_store.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster::store_testing {
namespace {

std::unique_ptr<ControlThread> StartControl() {
  auto started = ControlThread::Start();
  EXPECT_TRUE(started.ok()) << started.status();
  return *std::move(started);
}

class TcpHarness final : public StoreHarness {
 public:
  explicit TcpHarness(int world_size) : token_(*RandomToken()) {
    TcpStoreServer::Options options;
    options.world_size = world_size;
    options.token = token_;
    options.served_by = "the test, host a, pid 7";
    auto server = TcpStoreServer::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  absl::StatusOr<std::unique_ptr<Store>> Connect(const SessionInfo& info) override {
    TcpStore::Options options;
    options.address = server_->address();
    options.token = token_;
    options.session = info;
    options.heartbeat_timeout = Patience();
    options.deadline = Soon();
    options.control_thread = Control(info.rank);
    const std::map<uint16_t, int> before = Connections();
    absl::StatusOr<std::unique_ptr<TcpStore>> store = TcpStore::Connect(options);
    if (!store.ok()) return store.status();
    for (const auto& [local_port, fd] : Connections()) {
      if (before.count(local_port) == 0) local_port_[info.rank] = local_port;
    }
    return store;
  }

  Executor* executor(int rank) override { return Control(rank); }

  void DeclareLost(int rank, absl::string_view reason) override {
    server_->DeclareLost(rank, reason);
    server_->Sessions();  // it has been declared when this returns
  }

  // What a death is to the others: the connection ends without a word.
  void Kill(int rank) override {
    const std::map<uint16_t, int> connections = Connections();
    const auto found = connections.find(local_port_[rank]);
    if (found != connections.end()) shutdown(found->second, SHUT_RDWR);
  }

  void StopServer() override { server_->Stop(absl::InfinitePast()).IgnoreError(); }

 private:
  ControlThread* Control(int rank) {
    std::unique_ptr<ControlThread>& control = controls_[rank];
    if (control == nullptr) control = StartControl();
    return control.get();
  }

  // The descriptors of this process that are connected to the server, by their own port.
  std::map<uint16_t, int> Connections() const {
    std::map<uint16_t, int> found;
    for (int fd = 0; fd < 1024; ++fd) {
      sockaddr_in peer = {};
      sockaddr_in own = {};
      socklen_t peer_size = sizeof(peer);
      socklen_t own_size = sizeof(own);
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) continue;
      if (peer.sin_family != AF_INET || ntohs(peer.sin_port) != server_->port()) continue;
      if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) continue;
      found[ntohs(own.sin_port)] = fd;
    }
    return found;
  }

  std::string token_;
  std::map<int, uint16_t> local_port_;
  std::map<int, std::unique_ptr<ControlThread>> controls_;
  std::unique_ptr<TcpStoreServer> server_;
};

}  // namespace

std::unique_ptr<StoreHarness> MakeTcpHarness(int world_size) {
  return std::make_unique<TcpHarness>(world_size);
}

}  // namespace muster::store_testing

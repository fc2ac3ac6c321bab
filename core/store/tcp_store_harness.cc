#include <sys/socket.h>

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/auth.h"
#include "muster/core/store/socket_folder.h"
#include "muster/core/store/store_harness.h"
#include "muster/core/store/store_test_util.h"
#include "muster/core/store/tcp_address.h"
#include "muster/core/store/tcp_store.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster::store_testing {
namespace {

using store_internal::ResolvedAddress;

std::unique_ptr<ControlThread> StartControl() {
  auto started = ControlThread::Start();
  EXPECT_TRUE(started.ok()) << started.status();
  return *std::move(started);
}

class TcpHarness final : public StoreHarness {
 public:
  explicit TcpHarness(int world_size, const std::string& address) : token_(*RandomToken()) {
    TcpStoreServer::Options options;
    options.world_size = world_size;
    options.address = address;
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
    const std::map<int, int> before = Connections();
    absl::StatusOr<std::unique_ptr<TcpStore>> store = TcpStore::Connect(options);
    if (!store.ok()) return store.status();
    for (const auto& [name, fd] : Connections()) {
      if (before.count(name) == 0) name_[info.rank] = name;
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
    const std::map<int, int> connections = Connections();
    const auto found = connections.find(name_[rank]);
    if (found != connections.end()) shutdown(found->second, SHUT_RDWR);
  }

  void StopServer() override { server_->Stop(absl::InfinitePast()).IgnoreError(); }

 private:
  ControlThread* Control(int rank) {
    std::unique_ptr<ControlThread>& control = controls_[rank];
    if (control == nullptr) control = StartControl();
    return control.get();
  }

  // The descriptors of this process that are connected to the server, by what tells them apart:
  // their own port, or of a unix socket, which has none, the descriptor.
  std::map<int, int> Connections() const {
    std::map<int, int> found;
    for (int fd = 0; fd < 1024; ++fd) {
      ResolvedAddress peer;
      peer.size = sizeof(peer.storage);
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size) != 0) continue;
      if (peer.family() != AF_INET && peer.family() != AF_UNIX) continue;
      if (peer.ToString() != server_->address()) continue;
      found[peer.family() == AF_UNIX ? fd : store_internal::LocalAddress(fd).port] = fd;
    }
    return found;
  }

  std::string token_;
  std::map<int, int> name_;  // of each rank's connection, as in Connections
  std::map<int, std::unique_ptr<ControlThread>> controls_;
  std::unique_ptr<TcpStoreServer> server_;
};

// A harness in a folder that goes with it.
class UnixHarness final : public StoreHarness {
 public:
  explicit UnixHarness(int world_size) : harness_(world_size, folder_.Address("store")) {}

  absl::StatusOr<std::unique_ptr<Store>> Connect(const SessionInfo& info) override {
    return harness_.Connect(info);
  }
  Executor* executor(int rank) override { return harness_.executor(rank); }
  void DeclareLost(int rank, absl::string_view reason) override {
    harness_.DeclareLost(rank, reason);
  }
  void Kill(int rank) override { harness_.Kill(rank); }
  void StopServer() override { harness_.StopServer(); }

 private:
  const SocketFolder folder_;
  TcpHarness harness_;
};

}  // namespace

std::unique_ptr<StoreHarness> MakeTcpHarness(int world_size) {
  return std::make_unique<TcpHarness>(world_size, "127.0.0.1:0");
}

std::unique_ptr<StoreHarness> MakeUnixHarness(int world_size) {
  return std::make_unique<UnixHarness>(world_size);
}

}  // namespace muster::store_testing

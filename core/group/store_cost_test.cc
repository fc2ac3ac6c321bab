// What a group costs the job's store: round trips that do not grow with the number of ranks, and
// messages that grow with it and no faster.
//
// Real pools over a real server, which counts; the backend exchanges nothing, so all of it is the
// protocol's own. Nobody beats: a heartbeat is a request, too.

#include <cstdint>
#include <iostream>
#include <memory>
#include <thread>  // NOLINT(build/c++11): ranks are threads here
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/group/fake_backend.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/store/store_server_statistics.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster {
namespace {

struct Cost {
  double requests = 0;   // of a rank
  double responses = 0;  // to a rank
  double received = 0;   // bytes from a rank
  double sent = 0;       // bytes to a rank

  friend std::ostream& operator<<(std::ostream& out, const Cost& cost) {
    return out << cost.requests << " requests (" << cost.received << " bytes), " << cost.responses
               << " responses (" << cost.sent << " bytes) a rank";
  }
};

Cost Between(const StoreServerStatistics& before, const StoreServerStatistics& after, int ranks) {
  const auto each = [ranks](int64_t from, int64_t to) {
    return static_cast<double>(to - from) / ranks;
  };
  return {each(before.requests, after.requests), each(before.responses, after.responses),
          each(before.bytes_received, after.bytes_received),
          each(before.bytes_sent, after.bytes_sent)};
}

struct Costs {
  Cost create;
  Cost close;
};

class StoreCostTest : public ::testing::Test {
 protected:
  StoreCostTest() {
    backends_.Register("fake", std::make_unique<FakeBackend>("fake", &fakes_), __FILE__, __LINE__);
  }

  void Make(int ranks, Costs* costs) {
    TcpStoreServer::Options server_options;
    server_options.world_size = ranks;
    auto server = TcpStoreServer::Start(server_options);
    ASSERT_TRUE(server.ok()) << server.status();
    std::vector<std::unique_ptr<GroupPool>> pools(static_cast<size_t>(ranks));
    std::vector<GroupLease> leases(static_cast<size_t>(ranks));
    const auto on_each = [&](auto body) {
      std::vector<std::thread> threads;
      for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
      for (std::thread& thread : threads) thread.join();
    };
    const auto at = [](int rank) { return static_cast<size_t>(rank); };
    GroupSpec spec;
    spec.name = "train";
    spec.setup_timeout = spec.close_timeout = absl::Seconds(30) * TimeoutScale();
    on_each([&](int rank) {
      World world;
      world.rank = world.local_rank = rank;
      world.size = world.local_size = ranks;
      world.store_address = (*server)->address();
      PoolOptions options;
      options.backends = &backends_;
      options.connect_timeout = absl::Seconds(30) * TimeoutScale();
      options.heartbeat_timeout = absl::InfiniteDuration();
      auto pool = GroupPool::Create(world, options);
      ASSERT_TRUE(pool.ok()) << pool.status();
      pools[at(rank)] = *std::move(pool);
    });
    ASSERT_FALSE(HasFailure());
    const StoreServerStatistics before = (*server)->Statistics();
    on_each([&](int rank) {
      auto lease = pools[at(rank)]->Acquire(spec);
      ASSERT_TRUE(lease.ok()) << lease.status();
      leases[at(rank)] = *std::move(lease);
    });
    ASSERT_FALSE(HasFailure());
    const StoreServerStatistics made = (*server)->Statistics();
    on_each([&](int rank) { EXPECT_TRUE(leases[at(rank)].Close().ok()); });
    const StoreServerStatistics closed = (*server)->Statistics();
    *costs = {Between(before, made, ranks), Between(made, closed, ranks)};
    std::cout << ranks << " ranks: create " << costs->create << "; close " << costs->close << "\n";
    on_each([&](int rank) {
      leases[at(rank)].Release();
      pools[at(rank)].reset();
    });
  }

  FakeWorld fakes_;
  BackendRegistry backends_;
};

// A rank asks and is answered a fixed number of times. What it is told of the others, and a record
// that names them, is as long as they are many.
TEST_F(StoreCostTest, ARanksRoundTripsDoNotGrowWithTheNumberOfRanksNorItsBytesFasterThanIt) {
  for (const int ranks : {2, 8, 64}) {
    SCOPED_TRACE(ranks);
    Costs costs;
    ASSERT_NO_FATAL_FAILURE(Make(ranks, &costs));
    EXPECT_LE(costs.create.requests, 5) << costs.create;
    EXPECT_LE(costs.create.responses, 6) << costs.create;
    EXPECT_LE(costs.create.received, 1000 + 30 * ranks) << costs.create;
    EXPECT_LE(costs.create.sent, 1000 + 300 * ranks) << costs.create;
    EXPECT_LE(costs.close.requests, 3) << costs.close;
    EXPECT_LE(costs.close.responses, 4) << costs.close;
    EXPECT_LE(costs.close.received, 1000 + 30 * ranks) << costs.close;
    EXPECT_LE(costs.close.sent, 1000 + 150 * ranks) << costs.close;
  }
}

}  // namespace
}  // namespace muster

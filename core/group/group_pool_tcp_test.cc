// A pool joins its job over the network: by a launcher's store, or by the one that rank 0 serves.
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11): ranks are threads here
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group/fake_backend.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/observed_thread.h"
#include "muster/core/platform/read_file.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class GroupPoolTcpTest : public ::testing::Test {
 protected:
  GroupPoolTcpTest() {
    backends_.Register("fake", std::make_unique<FakeBackend>("fake", &fakes_), __FILE__, __LINE__);
    options_.backends = &backends_;
    options_.connect_timeout = absl::Seconds(10) * TimeoutScale();
  }

  static World RankOf(int rank, int size, const std::string& address) {
    World world;
    world.rank = world.local_rank = rank;
    world.size = world.local_size = size;
    world.store_address = address;
    world.launcher = "test";
    return world;
  }

  // Makes a group over all ranks, uses it and closes it.
  void UseGroup(const World& world) {
    absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::Create(world, options_);
    ASSERT_TRUE(pool.ok()) << pool.status();
    GroupSpec spec;
    spec.name = "train";
    absl::StatusOr<GroupLease> lease = (*pool)->Acquire(spec);
    ASSERT_TRUE(lease.ok()) << lease.status();
    float value = 1;
    EXPECT_TRUE((*lease)->AllReduce(Buffer::Of(value), ReduceOp::kSum).ok());
    EXPECT_EQ(value, world.size);
    EXPECT_TRUE(lease->Close().ok());
    lease->Release();
    EXPECT_TRUE((*pool)->Close(absl::Seconds(5) * TimeoutScale()).ok());
  }

  // A port that is surely free: the one that a server has just given back.
  static std::string FreeAddress() {
    auto probe = TcpStoreServer::Start(TcpStoreServer::Options());
    EXPECT_TRUE(probe.ok()) << probe.status();
    return probe.ok() ? (*probe)->address() : "";
  }

  struct TwoRanks {
    std::string address;
    std::vector<std::string> error_files{2};
    std::vector<std::unique_ptr<GroupPool>> pools{2};
    std::vector<GroupLease> leases{2};
  };

  // With a group over both; rank 0 serves the store.
  void Start(TwoRanks& job) {
    job.address = FreeAddress();
    std::vector<std::thread> ranks;
    for (size_t rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        World world = RankOf(static_cast<int>(rank), 2, job.address);
        if (rank == 0) world.serve_address = job.address;
        world.error_file = job.error_files[rank];
        auto pool = GroupPool::Create(world, options_);
        ASSERT_TRUE(pool.ok()) << pool.status();
        job.pools[rank] = *std::move(pool);
        auto lease = job.pools[rank]->Acquire(GroupSpec());
        ASSERT_TRUE(lease.ok()) << lease.status();
        job.leases[rank] = *std::move(lease);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    ASSERT_FALSE(job.leases[0].empty() || job.leases[1].empty());
  }

  FakeWorld fakes_;
  BackendRegistry backends_;
  PoolOptions options_;
};

TEST_F(GroupPoolTcpTest, RanksMeetInTheLaunchersStore) {
  TcpStoreServer::Options server_options;
  server_options.world_size = 3;
  auto server = TcpStoreServer::Start(server_options);
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] { UseGroup(RankOf(rank, 3, (*server)->address())); });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_F(GroupPoolTcpTest, RankZeroServesTheStoreAndLeavesLast) {
  const std::string address = FreeAddress();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      World world = RankOf(rank, 2, address);
      if (rank == 0) world.serve_address = address;
      UseGroup(world);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// L8: the peers leave at once and come again, while the first pool of rank 0 is still open.
TEST_F(GroupPoolTcpTest, WhoMakesItsNextPoolBeforeRankZeroHasClosedItsOwnGetsTheNextStore) {
  TwoRanks job;
  ASSERT_NO_FATAL_FAILURE(Start(job));
  std::thread zero([&] { EXPECT_TRUE(job.leases[0].Close().ok()); });
  EXPECT_TRUE(job.leases[1].Close().ok());
  zero.join();
  const absl::Duration bound = absl::Seconds(5) * TimeoutScale();
  EXPECT_TRUE(job.pools[1]->Close(bound).ok());
  ObservedThread one([&] { UseGroup(RankOf(1, 2, job.address)); });
  EXPECT_TRUE(one.AwaitAsleep(MonotonicNow() + TimeoutScale() * absl::Seconds(20)));
  EXPECT_TRUE(job.pools[0]->Close(bound).ok());
  World world = RankOf(0, 2, job.address);
  world.serve_address = job.address;
  UseGroup(world);
  one.join();
}

TEST_F(GroupPoolTcpTest, AnAbortOfTheRankThatServesTheStoreWaitsForNoPeer) {
  options_.close_timeout = absl::Hours(1);  // the peer does not leave, so this would be waited for
  TwoRanks job;
  ASSERT_NO_FATAL_FAILURE(Start(job));
  job.pools[0]->Abort(absl::CancelledError("enough"));
  EXPECT_FALSE(job.leases[1].Close().ok()) << "returns when rank 1 has heard of it";
  EXPECT_THAT(std::string(job.leases[1]->Barrier().message()), HasSubstr("enough"));
}

// As the abort alone: that a close was under way makes no peer be waited for.
TEST_F(GroupPoolTcpTest, AnAbortDuringTheCloseOfTheRankThatServesTheStoreWaitsForNoPeer) {
  options_.close_timeout = absl::Hours(1);
  TwoRanks job;
  ASSERT_NO_FATAL_FAILURE(Start(job));
  float value = 1;
  const Work work =
      job.leases[0]->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum);  // to be finished
  job.leases[0].Release();
  std::thread closer([&] { EXPECT_FALSE(job.pools[0]->Close(absl::Hours(1)).ok()); });
  while (job.pools[0]->LiveGroups().empty() ||
         job.pools[0]->LiveGroups()[0].state != GroupState::kDraining) {
    std::this_thread::yield();
  }
  job.pools[0]->Abort(absl::CancelledError("enough"));
  closer.join();
  EXPECT_FALSE(job.leases[1].Close().ok());
}

TEST_F(GroupPoolTcpTest, AnAbortOfARankThatServesTheStoreForItsPeersAloneWaitsForNone) {
  World world = RankOf(0, 2, FreeAddress());
  world.serve_address = world.store_address;
  auto serving = GroupPool::Create(world, options_);
  ASSERT_TRUE(serving.ok()) << serving.status();
  auto stays = GroupPool::Create(RankOf(1, 2, world.store_address), options_);
  ASSERT_TRUE(stays.ok()) << stays.status();
  ObservedThread closer([&] { EXPECT_TRUE((*serving)->Close(absl::Hours(1)).ok()); });
  EXPECT_TRUE(closer.AwaitAsleep(MonotonicNow() + TimeoutScale() * absl::Seconds(20)));
  (*serving)->Abort(absl::CancelledError("enough"));
  closer.join();
}

TEST_F(GroupPoolTcpTest, APortThatIsTakenIsNamed) {
  auto holder = TcpStoreServer::Start(TcpStoreServer::Options());
  ASSERT_TRUE(holder.ok()) << holder.status();
  World world = RankOf(0, 2, (*holder)->address());
  world.serve_address = (*holder)->address();
  const absl::Status status = GroupPool::Create(world, options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr((*holder)->address()));
}

TEST_F(GroupPoolTcpTest, AnotherWorldSizeAndASecondRankOfOneNumberAreRefusedAtOnce) {
  TcpStoreServer::Options server_options;
  server_options.world_size = 2;
  auto server = TcpStoreServer::Start(server_options);
  ASSERT_TRUE(server.ok()) << server.status();
  const absl::Status size =
      GroupPool::Create(RankOf(0, 3, (*server)->address()), options_).status();
  EXPECT_EQ(size.code(), absl::StatusCode::kInvalidArgument) << size;
  auto first = GroupPool::Create(RankOf(1, 2, (*server)->address()), options_);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status twice =
      GroupPool::Create(RankOf(1, 2, (*server)->address()), options_).status();
  EXPECT_EQ(twice.code(), absl::StatusCode::kAlreadyExists) << twice;
  EXPECT_THAT(std::string(twice.message()), HasSubstr("rank 1"));
}

TEST_F(GroupPoolTcpTest, AStoreThatIsNotThereIsNamedAfterTheTimeout) {
  options_.connect_timeout = absl::Milliseconds(50);
  const absl::Status status = GroupPool::Create(RankOf(0, 2, "127.0.0.1:1"), options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1"));
}

// Of the launcher's reader: torchrun takes the file with the earliest time for the root cause.
TEST_F(GroupPoolTcpTest, TheRankWhoseOwnErrorTheCauseIsTellsTorchrunAndNoOther) {
  TwoRanks job;
  for (size_t rank = 0; rank < 2; ++rank) {
    job.error_files[rank] = absl::StrCat(::testing::TempDir(), "/error", rank, ".json");
    unlink(job.error_files[rank].c_str());
  }
  ASSERT_NO_FATAL_FAILURE(Start(job));
  float value = 1;
  std::thread zero([&] {
    EXPECT_THAT(std::string(job.leases[0]->AllReduce(Buffer::Of(value), ReduceOp::kSum).message()),
                HasSubstr("label 17 out of range"));
  });
  job.leases[1].Abort(absl::DataLossError("label 17 out of range"));
  const absl::StatusOr<std::string> written = ReadFile(job.error_files[1]);
  zero.join();
  ASSERT_TRUE(written.ok()) << written.status() << ": when the abort has returned it is there";
  EXPECT_THAT(*written,
              HasSubstr(R"("message":"group default/1: rank 1 left: \"label 17 out of range\"")"));
  EXPECT_NE(access(job.error_files[0].c_str(), F_OK), 0) << "rank 0 was only told";
  job.pools[1].reset();  // rank 0 leaves last
}

TEST_F(GroupPoolTcpTest, AnErrorFileThatCannotBeWrittenChangesNothing) {
  TwoRanks job;
  job.error_files[1] = "/dev/null/error.json";
  ASSERT_NO_FATAL_FAILURE(Start(job));
  job.leases[1].Abort(absl::DataLossError("label 17 out of range"));
  EXPECT_EQ(job.leases[1]->status().message(), "rank 1 left: \"label 17 out of range\"");
  job.pools[1].reset();
}

}  // namespace
}  // namespace muster

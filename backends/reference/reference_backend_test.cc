#include "muster/backends/reference/reference_backend.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/device.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/memory_connect_store.h"

namespace muster {
namespace {

// What the conformance suite does not know: how this backend words things. Three ranks on threads.
class ReferenceBackendTest : public ::testing::Test {
 protected:
  static constexpr int kSize = 3;

  void SetUp() override {
    OnAllRanks([this](int rank) {
      std::unique_ptr<ConnectStore> store = hub_.ForRank(rank, nullptr);
      ConnectContext context;
      context.rank = rank;
      context.size = kSize;
      context.store = store.get();
      context.deadline = Later();
      absl::StatusOr<std::unique_ptr<Communicator>> made = backend_.Connect(context);
      if (!made.ok()) return made.status();
      comms_[static_cast<size_t>(rank)] = *std::move(made);
      return absl::OkStatus();
    });
    for (const absl::Status& status : results_) ASSERT_TRUE(status.ok()) << status;
  }

  void OnAllRanks(const std::function<absl::Status(int)>& body) {
    std::vector<std::thread> threads;
    threads.reserve(kSize);
    for (int rank = 0; rank < kSize; ++rank) {
      threads.emplace_back([&, rank] { results_[static_cast<size_t>(rank)] = body(rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void ExpectOnAllRanks(const absl::Status& expected) {
    for (const absl::Status& status : results_) EXPECT_EQ(status, expected);
  }
  Communicator& comm(int rank) { return *comms_[static_cast<size_t>(rank)]; }
  static absl::Time Later() { return MonotonicNow() + TimeoutScale() * absl::Seconds(20); }
  static OperationOptions Options() {
    OperationOptions options;
    options.deadline = Later();
    return options;
  }
  absl::Status Sum(int rank, size_t count) {
    std::vector<float> values(count);
    const Buffer buffer = Buffer::Of(absl::MakeSpan(values));
    return comm(rank).AllReduce(buffer, buffer, ReduceOp::kSum, Options());
  }

  ReferenceBackend backend_;
  testing::MemoryConnectHub hub_{kSize};
  std::vector<std::unique_ptr<Communicator>> comms_{kSize};
  std::vector<absl::Status> results_{kSize};
};

TEST_F(ReferenceBackendTest, RanksThatCallDifferentThingsLearnWhoCalledWhat) {
  OnAllRanks([this](int rank) { return Sum(rank, rank == 2 ? 8 : 4); });
  ExpectOnAllRanks(absl::InvalidArgumentError(
      "the ranks called different operations: rank 0 all_reduce of f32[4] by sum, rank 2 "
      "all_reduce of f32[8] by sum"));
}

// Far more than the sockets hold: the others are still sending when rank 0 says no.
TEST_F(ReferenceBackendTest, ADisagreementIsHeardByRanksThatAreStillSending) {
  OnAllRanks(
      [this](int rank) { return rank == 0 ? comm(0).Barrier(Options()) : Sum(rank, 4 << 20); });
  for (const absl::Status& status : results_) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

TEST_F(ReferenceBackendTest, EveryPartOfACallCounts) {
  OnAllRanks([this](int rank) {
    float value = 0;
    return comm(rank).Broadcast(Buffer::Of(value), rank == 1 ? 1 : 0, Options());
  });
  ExpectOnAllRanks(absl::InvalidArgumentError(
      "the ranks called different operations: rank 0 broadcast of f32[1] from rank 0, rank 1 "
      "broadcast of f32[1] from rank 1"));
}

TEST_F(ReferenceBackendTest, ASendThatMeetsACollectiveIsFound) {
  OnAllRanks([this](int rank) {
    float value = 0;
    if (rank == 1) {
      const absl::Status sent = comm(1).Send(Buffer::Of(value), 0, Options());
      return sent.ok() ? comm(1).Receive(Buffer::Of(value), 0, Options()) : sent;
    }
    return comm(rank).Barrier(Options());
  });
  ExpectOnAllRanks(absl::InvalidArgumentError(
      "the ranks called different operations: rank 0 barrier, rank 1 send of f32[1] to rank 0"));
}

TEST_F(ReferenceBackendTest, AReceiveOfAnotherSizeIsFound) {
  OnAllRanks([this](int rank) {
    std::vector<float> values(rank == 1 ? 2 : 3);
    const Buffer buffer = Buffer::Of(absl::MakeSpan(values));
    if (rank == 1) return comm(1).Send(buffer, 2, Options());
    return rank == 2 ? comm(2).Receive(buffer, 1, Options()) : absl::OkStatus();
  });
  EXPECT_EQ(results_[2], absl::InvalidArgumentError("rank 2 receives f32[3] from rank 1, which "
                                                    "called send of f32[2] to rank 2"));
}

// Rank 1 talks to rank 0 alone, and learns from it whom it lost.
TEST_F(ReferenceBackendTest, ALostRankIsNamedOnAllOthers) {
  comm(2).Abort(absl::AbortedError("gone"));
  OnAllRanks([this](int rank) { return rank == 2 ? absl::OkStatus() : Sum(rank, 4); });
  for (int rank : {0, 1}) {
    EXPECT_EQ(results_[static_cast<size_t>(rank)],
              absl::UnavailableError("lost contact with rank 2: it closed the connection"));
  }
}

TEST_F(ReferenceBackendTest, ALateRankIsNamedAtTheDeadline) {
  OnAllRanks([this](int rank) {
    if (rank == 2) return absl::OkStatus();
    OperationOptions options;
    options.deadline = rank == 0 ? MonotonicNow() + absl::Milliseconds(100) : Later();
    return comm(rank).Barrier(options);
  });
  for (int rank : {0, 1}) {
    EXPECT_EQ(results_[static_cast<size_t>(rank)],
              absl::DeadlineExceededError("the deadline passed while this rank waited for rank 2"));
  }
}

TEST_F(ReferenceBackendTest, AfterAFailureOnlyAbortMayFollow) {
  OnAllRanks([this](int rank) { return Sum(rank, rank == 2 ? 8 : 4); });
  const absl::Status again = Sum(1, 4);
  EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
  EXPECT_TRUE(absl::IsFailedPrecondition(comm(1).Finalize(Later())));
  comm(1).Abort(absl::AbortedError("done"));
  EXPECT_TRUE(comm(1).Held().empty());
}

TEST_F(ReferenceBackendTest, AFinalizeNamesTheRanksThatDidNotClose) {
  EXPECT_EQ(comm(0).Finalize(MonotonicNow()),
            absl::DeadlineExceededError("the deadline passed before ranks 1, 2 closed"));
}

TEST_F(ReferenceBackendTest, Counts) {
  EXPECT_EQ(comm(0).Held().ToString(), "3 file descriptors");  // two peers and an eventfd
}

TEST_F(ReferenceBackendTest, AForkedChildOwnsNothingAndTheParentKeepsAll) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool refused = absl::IsFailedPrecondition(comm(0).Barrier(Options()));
    const bool empty = comm(0).Held().empty();
    comm(0).Abort(absl::AbortedError("in the child"));
    comms_.clear();
    _exit(refused && empty ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  OnAllRanks([this](int rank) { return Sum(rank, 4); });
  ExpectOnAllRanks(absl::OkStatus());
}

TEST(ReferenceBackendAloneTest, OneRankNeedsNoSocketAndNoStore) {
  ReferenceBackend backend;
  ConnectContext context;
  absl::StatusOr<std::unique_ptr<Communicator>> comm = backend.Connect(context);
  ASSERT_TRUE(comm.ok()) << comm.status();
  EXPECT_TRUE((*comm)->Held().empty());
  float value = 3;
  EXPECT_TRUE(
      (*comm)->AllReduce(Buffer::Of(value), Buffer::Of(value), ReduceOp::kAverage, {}).ok());
  EXPECT_EQ(value, 3);
}

// `count` of them, of which none is touched: there is no such number.
Buffer TooMany(int64_t count) {
  static uint16_t value = 0;
  return Buffer{&value, count, DataType::kF16, Device::Cpu()};
}

absl::Status NoMemoryFor(const Buffer& buffer) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for what an operation on ", buffer.bytes(),
                   " bytes needs beside its buffers: move less at a time, or look at the limits"));
}

TEST(ReferenceBackendAloneTest, WithoutMemoryForAnOperationItSaysHowMuchWasAskedFor) {
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  GTEST_SKIP() << "the sanitizer's new ends the process instead of throwing";
#endif
  ReferenceBackend backend;
  absl::StatusOr<std::unique_ptr<Communicator>> comm = backend.Connect(ConnectContext());
  ASSERT_TRUE(comm.ok()) << comm.status();
  const Buffer buffer = TooMany(int64_t{3} << 60);
  EXPECT_EQ((*comm)->AllReduce(buffer, buffer, ReduceOp::kSum, {}), NoMemoryFor(buffer));
  EXPECT_TRUE(absl::StrContains((*comm)->Barrier({}).message(), "an earlier operation failed"));
}

TEST(ReferenceBackendAloneTest, MoreThanAContainerCanHoldIsNoMemoryToo) {
  ReferenceBackend backend;
  absl::StatusOr<std::unique_ptr<Communicator>> comm = backend.Connect(ConnectContext());
  ASSERT_TRUE(comm.ok()) << comm.status();
  const Buffer buffer = TooMany((int64_t{1} << 62) - 1);
  EXPECT_EQ((*comm)->AllToAllV(buffer, {buffer.count}, buffer, {buffer.count}, {}),
            NoMemoryFor(buffer));
}

TEST(ReferenceBackendAloneTest, SaysWhatItDoesNotDo) {
  ReferenceBackend backend;
  EXPECT_EQ(backend.Check(Device::Cuda(1), {}),
            absl::InvalidArgumentError("the backend \"reference\" works on cpu, not on cuda:1"));
  EXPECT_EQ(
      backend.Check(Device::Cpu(), {{"fast", "1"}}),
      absl::InvalidArgumentError("the backend \"reference\" has no option \"fast\": it has none"));
  EXPECT_TRUE(BackendRegistry::Global().Find("reference").ok());
}

}  // namespace
}  // namespace muster

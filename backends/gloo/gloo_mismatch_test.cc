// Ranks that call operations that do not fit: every rank learns who called what, soon, and no byte
// of the one operation comes into a buffer of the other.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/barrier.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "muster/backends/gloo/gloo_backend.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/memory_connect_store.h"

namespace muster {
namespace {

using Operation = std::function<absl::Status(Communicator&, int rank, const OperationOptions&)>;

class GlooMismatchTest : public ::testing::Test {
 protected:
  // What `operation` gives on each rank. None leaves before all have come back, as in a group: what
  // a rank learns, it does not learn from another's end.
  static std::vector<absl::Status> Run(int size, const Operation& operation,
                                       absl::Duration limit = absl::Minutes(10)) {
    testing::MemoryConnectHub hub(size);
    std::vector<absl::Status> results(static_cast<size_t>(size));
    auto* const all_there = new absl::Barrier(size);
    auto* const all_back = new absl::Barrier(size);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] {
        std::unique_ptr<ConnectStore> store = hub.ForRank(rank, nullptr);
        ConnectContext context;
        context.rank = rank;
        context.size = size;
        context.store = store.get();
        context.deadline = MonotonicNow() + absl::Seconds(20) * TimeoutScale();
        GlooBackend backend;
        absl::StatusOr<std::unique_ptr<Communicator>> made = backend.Connect(context);
        if (all_there->Block()) delete all_there;
        OperationOptions options;
        options.deadline = MonotonicNow() + limit;
        results[static_cast<size_t>(rank)] =
            made.ok() ? operation(**made, rank, options) : made.status();
        if (all_back->Block()) delete all_back;
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return results;
  }

  // All ranks say `what`.
  void ExpectMisfit(int size, const std::string& what, const Operation& operation) {
    const std::vector<absl::Status> results = Run(size, operation);
    for (size_t rank = 0; rank < results.size(); ++rank) {
      EXPECT_EQ(results[rank],
                absl::FailedPreconditionError("the ranks called different operations: " + what))
          << "rank " << rank;
    }
  }

  template <class T = float>
  static Buffer Own(int64_t count) {  // for as long as the thread of the rank runs
    thread_local std::vector<T> values;
    values.assign(static_cast<size_t>(count), T());
    return Buffer::Of(absl::MakeSpan(values));
  }
};

TEST_F(GlooMismatchTest, ElementTypesOfOneSize) {
  ExpectMisfit(2, "rank 0 all_reduce of i32[100] by sum, rank 1 all_reduce of f32[100] by sum",
               [](Communicator& comm, int rank, const OperationOptions& options) {
                 const Buffer buffer = rank == 0 ? Own<int32_t>(100) : Own(100);
                 return comm.AllReduce(buffer, buffer, ReduceOp::kSum, options);
               });
}

TEST_F(GlooMismatchTest, Reductions) {
  ExpectMisfit(2, "rank 0 all_reduce of f32[100] by max, rank 1 all_reduce of f32[100] by sum",
               [](Communicator& comm, int rank, const OperationOptions& options) {
                 const Buffer buffer = Own(100);
                 return comm.AllReduce(buffer, buffer, rank == 0 ? ReduceOp::kMax : ReduceOp::kSum,
                                       options);
               });
}

TEST_F(GlooMismatchTest, Counts) {
  ExpectMisfit(2, "rank 0 all_reduce of f32[1000000] by sum, rank 1 all_reduce of f32[1000] by sum",
               [](Communicator& comm, int rank, const OperationOptions& options) {
                 const Buffer buffer = Own(rank == 0 ? 1000000 : 1000);
                 return comm.AllReduce(buffer, buffer, ReduceOp::kSum, options);
               });
}

TEST_F(GlooMismatchTest, NothingAndSomething) {
  ExpectMisfit(2, "rank 0 broadcast of f32[0] from rank 0, rank 1 broadcast of f32[9] from rank 0",
               [](Communicator& comm, int rank, const OperationOptions& options) {
                 return comm.Broadcast(Own(rank == 0 ? 0 : 9), 0, options);
               });
}

TEST_F(GlooMismatchTest, Roots) {
  ExpectMisfit(2,
               "rank 0 reduce of f32[4] by sum to rank 0, rank 1 reduce of f32[4] by sum to rank 1",
               [](Communicator& comm, int rank, const OperationOptions& options) {
                 const Buffer buffer = Own(4);
                 return comm.Reduce(buffer, buffer, ReduceOp::kSum, rank, options);
               });
}

TEST_F(GlooMismatchTest, Collectives) {
  ExpectMisfit(2, "rank 0 all_reduce of f32[4] by sum, rank 1 barrier",
               [](Communicator& comm, int rank, const OperationOptions& options) {
                 const Buffer buffer = Own(4);
                 return rank == 0 ? comm.AllReduce(buffer, buffer, ReduceOp::kSum, options)
                                  : comm.Barrier(options);
               });
}

TEST_F(GlooMismatchTest, WhatIsSentAndWhatIsReceived) {
  for (const auto& [sent, received] : {std::pair{100, 200}, std::pair{200, 100}}) {
    ExpectMisfit(2,
                 "rank 0 send of f32[" + std::to_string(sent) + "] to rank 1, rank 1 receive of " +
                     "f32[" + std::to_string(received) + "] from rank 0",
                 [sent = sent, received = received](Communicator& comm, int rank,
                                                    const OperationOptions& options) {
                   return rank == 0 ? comm.Send(Own(sent), 1, options)
                                    : comm.Receive(Own(received), 0, options);
                 });
  }
}

TEST_F(GlooMismatchTest, CountsOfAnAllToAllV) {
  ExpectMisfit(2,
               "rank 0 all_to_all_v of f32 (8 to rank 1, 4 from it), rank 1 all_to_all_v of f32 "
               "(4 to rank 0, 4 from it)",
               [](Communicator& comm, int rank, const OperationOptions& options) {
                 std::vector<float> out(8);
                 const std::vector<int64_t> to = {4, rank == 0 ? 8 : 4};
                 return comm.AllToAllV(Own(to[0] + to[1]), to, Buffer::Of(absl::MakeSpan(out)),
                                       {4, 4}, options);
               });
}

// Ranks 0 and 1 agree; each compares itself with rank 2.
TEST_F(GlooMismatchTest, OneOfThreeIsFoundByBothOthers) {
  const std::vector<absl::Status> results =
      Run(3, [](Communicator& comm, int rank, const OperationOptions& options) {
        const Buffer buffer = Own(rank == 2 ? 5 : 4);
        return comm.AllReduce(buffer, buffer, ReduceOp::kSum, options);
      });
  const auto misfit = [](int rank) {
    return absl::FailedPreconditionError(
        "the ranks called different operations: rank " + std::to_string(rank) +
        " all_reduce of f32[4] by sum, rank 2 all_reduce of f32[5] by sum");
  };
  EXPECT_EQ(results[0], misfit(0));
  EXPECT_EQ(results[1], misfit(1));
  // By whichever of the two it has heard of.
  EXPECT_TRUE(results[2] == misfit(0) || results[2] == misfit(1)) << results[2];
}

// A rank that is late is late: the others look around, and go on with it.
TEST_F(GlooMismatchTest, WaitingLongForARankIsNoMismatch) {
  const std::vector<absl::Status> results =
      Run(3, [](Communicator& comm, int rank, const OperationOptions& options) {
        const Buffer buffer = Own(4);
        for (int late = 0; late < 3; ++late) {
          // The time is what is checked: the others have looked around more than once.
          if (rank == late) absl::SleepFor(absl::Milliseconds(800));
          absl::Status status = comm.AllReduce(buffer, buffer, ReduceOp::kSum, options);
          if (!status.ok()) return status;
          status = rank == 0   ? comm.Send(buffer, 1, options)
                   : rank == 1 ? comm.Receive(buffer, 0, options)
                               : absl::OkStatus();
          if (!status.ok()) return status;
        }
        return comm.Barrier(options);
      });
  for (const absl::Status& result : results) EXPECT_EQ(result, absl::OkStatus());
}

// Whoever is given little time looks around in half of it. Where the ranks came further apart than
// that, once more.
TEST_F(GlooMismatchTest, AShortDeadlineLeavesTimeToFindOut) {
  bool found = false;
  for (int attempt = 0; !found && attempt < 10; ++attempt) {
    const std::vector<absl::Status> results = Run(
        2,
        [](Communicator& comm, int rank, const OperationOptions& options) {
          return comm.Broadcast(Own(4), rank, options);
        },
        absl::Milliseconds(400));
    found = absl::IsFailedPrecondition(results[0]) && absl::IsFailedPrecondition(results[1]);
  }
  EXPECT_TRUE(found);
}

// Rank 0 has told what it called, and has less time left than it takes until a rank looks around of
// its own. How late rank 1 comes is what is checked; where it overslept, once more.
TEST_F(GlooMismatchTest, ARankThatComesLateLooksAtOnceAtWhatItWasTold) {
  bool collectives = false;
  bool steps = false;
  for (int attempt = 0; !(collectives && steps) && attempt < 10; ++attempt) {
    const auto late = [](const Operation& of_late) {
      return [of_late](Communicator& comm, int rank, const OperationOptions& options) {
        const Buffer buffer = Own(4);
        if (rank == 0) return comm.AllReduce(buffer, buffer, ReduceOp::kSum, options);
        absl::SleepFor(absl::Milliseconds(1000));
        OperationOptions patient = options;
        patient.deadline += absl::Minutes(10);
        return of_late(comm, rank, patient);
      };
    };
    const absl::Duration limit = absl::Milliseconds(1400);
    std::vector<absl::Status> results =
        Run(2, late([](Communicator& comm, int, const OperationOptions& options) {
              return comm.Barrier(options);
            }),
            limit);
    collectives = collectives || (absl::IsFailedPrecondition(results[0]) &&
                                  absl::IsFailedPrecondition(results[1]));
    // Only rank 0 can tell that this does not fit: its own end is what rank 1 learns.
    results = Run(2, late([](Communicator& comm, int, const OperationOptions& options) {
                    OperationOptions short_of = options;
                    short_of.deadline = MonotonicNow() + absl::Seconds(2);
                    return comm.Receive(Own(4), 0, short_of);
                  }),
                  limit);
    steps = steps || absl::IsFailedPrecondition(results[0]);
  }
  EXPECT_TRUE(collectives);
  EXPECT_TRUE(steps);
}

}  // namespace
}  // namespace muster

// The checks of waiting for each other, of point-to-point traffic and of Split.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/testing/backend_conformance_tensor.h"
#include "muster/testing/backend_conformance_world.h"

namespace muster::testing::conformance {
namespace {

// What the ranks have done about one barrier.
struct Crossing {
  absl::Mutex mutex;
  int entering ABSL_GUARDED_BY(mutex) = 0;
  int left ABSL_GUARDED_BY(mutex) = 0;
};

// In each round another rank is late. Once the others are at the barrier, it gives them a while to
// leave too early, which only a barrier that does not wait lets them do.
absl::Status BarrierWaits(World& world) {
  if (absl::Status skip = world.Need(Capability::kBarrier); !skip.ok()) return skip;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  auto crossings = std::make_shared<std::vector<Crossing>>(static_cast<size_t>(world.size()));
  status = world.Each([crossings](World& w, int rank) {
    for (int round = 0; round < w.size(); ++round) {
      Crossing& crossing = (*crossings)[static_cast<size_t>(round)];
      {
        absl::MutexLock lock(&crossing.mutex);
        if (rank == round) {
          const int others = w.size() - 1;
          const auto all_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(crossing.mutex) {
            return crossing.entering == others;
          };
          const auto one_left = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(crossing.mutex) {
            return crossing.left > 0;
          };
          if (!crossing.mutex.AwaitWithTimeout(absl::Condition(&all_there), 3 * w.bound())) {
            return Broken("not all ranks came to barrier ", round);
          }
          // For what must not happen there is nothing to wait for but time.
          if (crossing.mutex.AwaitWithTimeout(absl::Condition(&one_left), absl::Milliseconds(30))) {
            return Broken("a rank left barrier ", round, " before this one had entered it");
          }
        } else {
          ++crossing.entering;
        }
      }
      absl::Status entered = w.comm(rank).Barrier(w.Options());
      if (!entered.ok()) return Broken("barrier: ", entered.ToString());
      absl::MutexLock lock(&crossing.mutex);
      ++crossing.left;
    }
    return absl::OkStatus();
  });
  return status.ok() ? world.Finalize() : status;
}

// Around the ring, one after the other, then all pairs at once: more than the sockets hold, in both
// directions, so that only transfers that progress together get through.
absl::Status SendAndReceive(World& world) {
  if (absl::Status skip = world.Need(Capability::kSendReceive); !skip.ok()) return skip;
  if (absl::Status skip = world.NeedRanks(2); !skip.ok()) return skip;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  status = world.Each([](World& w, int rank) {
    const int next = (rank + 1) % w.size();
    const int previous = (rank + w.size() - 1) % w.size();
    for (DataType dtype : kAllDataTypes) {
      for (int64_t count : {0, 1, 1001}) {
        Tensor token(dtype, count);
        absl::Status result;
        if (rank == 0) {
          for (int64_t i = 0; i < count; ++i) token.Set(i, Marked(7, i));
          result = w.comm(rank).Send(token.buffer(), next, w.Options());
          if (!result.ok()) return Broken("send: ", result.ToString());
          token.Fill(0);
        }
        result = w.comm(rank).Receive(token.buffer(), previous, w.Options());
        if (!result.ok()) return Broken("receive: ", result.ToString());
        result = ExpectElements(token, dtype, [](int64_t i) { return Marked(7, i); });
        if (!result.ok()) {
          return Broken("receive of ", Name(dtype), "[", count, "]: ", result.message());
        }
        if (rank != 0) {
          result = w.comm(rank).Send(token.buffer(), next, w.Options());
          if (!result.ok()) return Broken("send: ", result.ToString());
        }
      }
    }
    return absl::OkStatus();
  });
  return status.ok() ? world.Finalize() : status;
}

absl::Status TransfersProgressTogether(World& world) {
  if (absl::Status skip = world.Need(Capability::kSendReceive); !skip.ok()) return skip;
  if (absl::Status skip = world.NeedRanks(2); !skip.ok()) return skip;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  status = world.Each([](World& w, int rank) {
    constexpr int64_t kCount = 2'000'000;
    absl::Status result = w.comm(rank).Transfer({}, w.Options());
    if (!result.ok()) return Broken("an empty transfer: ", result.ToString());
    std::vector<Tensor> sent;
    std::vector<Tensor> received;
    std::vector<PeerTransfer> batch;
    sent.reserve(static_cast<size_t>(w.size()));
    received.reserve(static_cast<size_t>(w.size()));
    for (int peer = 0; peer < w.size(); ++peer) {
      sent.emplace_back(DataType::kI32, kCount);
      received.emplace_back(DataType::kI32, kCount);
      if (peer == rank) continue;
      for (int64_t i = 0; i < kCount; ++i) sent.back().Set(i, Marked(rank * 5 + peer, i));
      batch.push_back({PeerTransfer::Kind::kSend, peer, sent.back().buffer()});
      batch.push_back({PeerTransfer::Kind::kReceive, peer, received.back().buffer()});
    }
    result = w.comm(rank).Transfer(batch, w.Options());
    if (!result.ok()) return Broken("transfer: ", result.ToString());
    for (int peer = 0; peer < w.size(); ++peer) {
      if (peer == rank) continue;
      result = ExpectElements(received[static_cast<size_t>(peer)], DataType::kI32,
                              [&](int64_t i) { return Marked(peer * 5 + rank, i); });
      if (!result.ok()) return Broken("transfer from rank ", peer, ": ", result.message());
    }
    return absl::OkStatus();
  });
  return status.ok() ? world.Finalize() : status;
}

// The last rank does not call what the others call.
struct Mismatch {
  const char* what;
  Capability needs;
  absl::Status (*call)(Communicator& comm, bool odd, const OperationOptions& options);
};

absl::Status ReduceAll(Communicator& comm, DataType dtype, int64_t count, ReduceOp op,
                       const OperationOptions& options) {
  Tensor in(dtype, count);
  Tensor out(dtype, count);
  return comm.AllReduce(in.buffer(), out.buffer(), op, options);
}

constexpr Mismatch kMismatches[] = {
    {"all_reduce of f32 and of i32", Capability::kAllReduce,
     [](Communicator& comm, bool odd, const OperationOptions& options) {
       return ReduceAll(comm, odd ? DataType::kI32 : DataType::kF32, 100, ReduceOp::kSum, options);
     }},
    {"all_reduce of f32 and of f64", Capability::kAllReduce,
     [](Communicator& comm, bool odd, const OperationOptions& options) {
       return ReduceAll(comm, odd ? DataType::kF64 : DataType::kF32, 100, ReduceOp::kSum, options);
     }},
    {"all_reduce by sum and by max", Capability::kAllReduce,
     [](Communicator& comm, bool odd, const OperationOptions& options) {
       return ReduceAll(comm, DataType::kF32, 100, odd ? ReduceOp::kMax : ReduceOp::kSum, options);
     }},
    {"all_reduce of 100 and of 50", Capability::kAllReduce,
     [](Communicator& comm, bool odd, const OperationOptions& options) {
       return ReduceAll(comm, DataType::kF32, odd ? 50 : 100, ReduceOp::kSum, options);
     }},
    {"broadcast of 100 and of 200", Capability::kBroadcast,
     [](Communicator& comm, bool odd, const OperationOptions& options) {
       Tensor tensor(DataType::kF32, odd ? 200 : 100);
       return comm.Broadcast(tensor.buffer(), 0, options);
     }},
    {"reduce to rank 0 and to rank 1", Capability::kReduce,
     [](Communicator& comm, bool odd, const OperationOptions& options) {
       Tensor in(DataType::kF32, 100);
       Tensor out(DataType::kF32, 100);
       return comm.Reduce(in.buffer(), out.buffer(), ReduceOp::kSum, odd ? 1 : 0, options);
     }},
};

// A message of 100 elements for 200, and the other way round.
absl::Status SendMismatched(World& w, int rank, int64_t sent, int64_t received,
                            const OperationOptions& options) {
  Tensor tensor(DataType::kF32, rank == 0 ? sent : received);
  if (rank == 0) return w.comm(0).Send(tensor.buffer(), 1, options);
  return rank == 1 ? w.comm(1).Receive(tensor.buffer(), 0, options) : absl::OkStatus();
}

// One generation in which `body` goes wrong, on every rank that `concerned` names.
absl::Status ExpectAllFail(World& world, const std::string& what,
                           std::function<bool(int rank)> concerned,
                           std::function<absl::Status(World&, int, const OperationOptions&)> body) {
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  return world.Each(
      [what, concerned = std::move(concerned), body = std::move(body)](World& w, int rank) {
        // A backend that finds out by its deadline alone keeps this promise, too.
        OperationOptions options;
        options.deadline = MonotonicNow() + w.bound();
        const absl::Status result = body(w, rank, options);
        if (!result.ok() || !concerned(rank)) return absl::OkStatus();
        return Broken(what, " by different ranks succeeded");
      });
}

absl::Status MismatchedCallsAreAnError(World& world) {
  if (absl::Status skip = world.NeedRanks(2); !skip.ok()) return skip;
  bool checked = false;
  for (const Mismatch& mismatch : kMismatches) {
    if (!world.Has(mismatch.needs)) continue;
    checked = true;
    // Of a broadcast a rank in the middle may have what it should.
    const bool all = mismatch.needs != Capability::kBroadcast;
    const int last = world.size() - 1;
    absl::Status status = ExpectAllFail(
        world, mismatch.what, [all, last](int rank) { return all || rank == last; },
        [call = mismatch.call](World& w, int rank, const OperationOptions& options) {
          return call(w.comm(rank), rank + 1 == w.size(), options);
        });
    if (!status.ok()) return status;
  }
  if (world.Has(Capability::kSendReceive)) {
    checked = true;
    for (const auto& [sent, received] : {std::pair{100, 200}, std::pair{200, 100}}) {
      absl::Status status = ExpectAllFail(
          world, absl::StrCat("a send of ", sent, " and a receive of ", received),
          [](int rank) { return rank == 1; },
          [sent = sent, received = received](World& w, int rank, const OperationOptions& options) {
            return SendMismatched(w, rank, sent, received, options);
          });
      if (!status.ok()) return status;
    }
  }
  return checked ? absl::OkStatus()
                 : NothingToCheck("no operation that ranks can call differently");
}

// Splits by `color` and reversed ranks, and checks who is who by what the new one gathers.
absl::Status SplitOnce(World& w, int rank, const std::function<int(int)>& color) {
  std::vector<int32_t> expected;  // the ranks of our color, the highest first
  for (int r = w.size() - 1; r >= 0; --r) {
    if (color(r) == color(rank)) expected.push_back(r);
  }
  std::unique_ptr<ConnectStore> store;
  const ConnectContext context = w.Context(rank, store);
  absl::StatusOr<std::unique_ptr<Communicator>> made =
      w.comm(rank).Split(color(rank), -rank, context);
  if (!made.ok()) return Broken("split: ", made.status().ToString());
  if (color(rank) < 0) {
    return *made == nullptr ? absl::OkStatus()
                            : Broken("split with a negative color gave a communicator");
  }
  if (*made == nullptr) return Broken("split gave a null pointer");
  absl::Status result;
  if (w.Has(Capability::kAllGather)) {
    int32_t mine = rank;
    std::vector<int32_t> all(expected.size());
    result = (*made)->AllGather(Buffer::Of(mine), Buffer::Of(absl::MakeSpan(all)), w.Options());
    if (!result.ok()) return Broken("all_gather after split: ", result.ToString());
    if (all != expected) {
      return Broken("after split the ranks were ", absl::StrJoin(all, ", "), ", not ",
                    absl::StrJoin(expected, ", "));
    }
  }
  result = (*made)->Finalize(w.Later());
  if (!result.ok()) return Broken("Finalize after split: ", result.ToString());
  const Holdings held = (*made)->Held();
  return held.empty() ? absl::OkStatus()
                      : Broken("after Finalize a split one holds ", held.ToString());
}

absl::Status SplitMakesCommunicators(World& world) {
  if (absl::Status skip = world.Need(Capability::kSplit); !skip.ok()) return skip;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  status = world.Each([](World& w, int rank) {
    absl::Status result = SplitOnce(w, rank, [](int) { return 3; });
    if (!result.ok()) return result;
    // Even and odd ranks apart, the last one in neither.
    return SplitOnce(w, rank, [&w](int r) { return r > 0 && r == w.size() - 1 ? -1 : r % 2; });
  });
  if (!status.ok()) return status;
  status = world.Each([](World& w, int rank) {
    std::vector<float> values(64);
    return AnyCollective(w, rank, values, w.Options());
  });
  return status.ok() ? world.Finalize() : Broken("after a split the parent: ", status.message());
}

}  // namespace

absl::Span<const ConformanceCheck> PeerChecks() {
  static constexpr ConformanceCheck kChecks[] = {
      {"BarrierWaitsForEveryRank",
       [](const ConformanceTarget& t) { return RunCheck(t, BarrierWaits); }},
      {"SendMeetsReceive", [](const ConformanceTarget& t) { return RunCheck(t, SendAndReceive); }},
      {"TransfersProgressTogether",
       [](const ConformanceTarget& t) { return RunCheck(t, TransfersProgressTogether); }},
      {"MismatchedCallsAreAnErrorOnEveryRank",
       [](const ConformanceTarget& t) { return RunCheck(t, MismatchedCallsAreAnError); }},
      {"SplitMakesCommunicators",
       [](const ConformanceTarget& t) { return RunCheck(t, SplitMakesCommunicators); }},
  };
  return kChecks;
}

}  // namespace muster::testing::conformance

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
      {"SplitMakesCommunicators",
       [](const ConformanceTarget& t) { return RunCheck(t, SplitMakesCommunicators); }},
  };
  return kChecks;
}

}  // namespace muster::testing::conformance

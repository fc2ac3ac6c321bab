// The checks of what collectives compute.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/testing/backend_conformance_tensor.h"
#include "muster/testing/backend_conformance_world.h"

namespace muster::testing::conformance {
namespace {

// Nothing, one, odd ones, and more than 64 KiB of every type; few are a multiple of anything.
constexpr int64_t kSizes[] = {0, 1, 3, 64, 1001};
constexpr int64_t kLarge = 70'001;

// What each rank saw, to compare when all are back.
class Digests {
 public:
  explicit Digests(int size) : of_rank_(static_cast<size_t>(size)) {}
  void Add(int rank, const Tensor& tensor) {
    const absl::string_view bytes = tensor.bytes();
    of_rank_[static_cast<size_t>(rank)].push_back(
        std::hash<std::string_view>()({bytes.data(), bytes.size()}));
  }
  absl::Status ExpectEqual() const {
    for (size_t rank = 1; rank < of_rank_.size(); ++rank) {
      if (of_rank_[rank] != of_rank_[0]) {
        return Broken("ranks 0 and ", rank, " ended with different bits");
      }
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::vector<size_t>> of_rank_;
};

// Connects, runs `body` on all ranks, finalizes: the frame of every check below.
absl::Status Connected(World& world, std::function<absl::Status(World&, int)> body) {
  absl::Status status = world.Connect();
  if (status.ok()) status = world.Each(std::move(body));
  return status.ok() ? world.Finalize() : status;
}

absl::Status In(const std::string& what, const absl::Status& status) {
  if (status.ok()) return status;
  // What the backend says keeps its code; what we found is a sentence.
  return Broken(what, ": ",
                absl::IsFailedPrecondition(status) ? status.message() : status.ToString());
}

// Calls `each` with every reduction, type and size that is worth it.
absl::Status ForEachReduction(
    absl::Span<const int64_t> sizes, int64_t large,
    const std::function<absl::Status(ReduceOp, DataType, int64_t)>& each) {
  for (ReduceOp op : kAllReduceOps) {
    for (DataType dtype : kAllDataTypes) {
      if (!CheckReduction(op, dtype).ok()) continue;
      for (int64_t count : sizes) {
        absl::Status status = each(op, dtype, count);
        if (!status.ok()) {
          return In(absl::StrCat(Name(op), " of ", Name(dtype), "[", count, "]"), status);
        }
      }
    }
  }
  for (DataType dtype : kAllDataTypes) {
    absl::Status status = each(ReduceOp::kSum, dtype, large);
    if (!status.ok()) return In(absl::StrCat("sum of ", Name(dtype), "[", large, "]"), status);
  }
  return absl::OkStatus();
}

absl::Status ForEachType(const std::function<absl::Status(DataType, int64_t)>& each) {
  for (DataType dtype : kAllDataTypes) {
    for (int64_t count : {kSizes[0], kSizes[1], kSizes[2], kSizes[4], kLarge}) {
      absl::Status status = each(dtype, count);
      if (!status.ok()) return In(absl::StrCat(Name(dtype), "[", count, "]"), status);
    }
  }
  return absl::OkStatus();
}

absl::Status ExpectReduced(const Tensor& out, ReduceOp op, DataType dtype, int size,
                           int64_t first) {
  Tensor rounded(dtype, 1);
  for (int64_t i = 0; i < out.count(); ++i) {
    rounded.Set(0, ExpectedOf(op, dtype, size, first + i));
    if (!Agree(out.Get(i), rounded.Get(0), op, dtype)) {
      return WrongElement(i, out.Get(i), rounded.Get(0));
    }
  }
  return out.CheckMargins();
}

Tensor ReductionInput(ReduceOp op, DataType dtype, int rank, int64_t count) {
  Tensor in(dtype, count);
  for (int64_t i = 0; i < count; ++i) in.Set(i, InputFor(op, dtype, rank, i));
  return in;
}

Tensor MarkedInput(DataType dtype, int rank, int64_t count) {
  Tensor in(dtype, count);
  for (int64_t i = 0; i < count; ++i) in.Set(i, Marked(rank, i));
  return in;
}

absl::Status AllReduce(World& world) {
  if (absl::Status skip = world.Need(Capability::kAllReduce); !skip.ok()) return skip;
  auto digests = std::make_shared<Digests>(world.size());
  absl::Status status = Connected(world, [digests](World& w, int rank) {
    return ForEachReduction(kSizes, kLarge, [&](ReduceOp op, DataType dtype, int64_t count) {
      Tensor in = ReductionInput(op, dtype, rank, count);
      const Tensor given = in;
      Tensor out(dtype, count);
      absl::Status result = w.comm(rank).AllReduce(in.buffer(), out.buffer(), op, w.Options());
      if (result.ok()) result = ExpectReduced(out, op, dtype, w.size(), 0);
      if (result.ok() && in.bytes() != given.bytes()) result = Broken("`in` was written to");
      if (!result.ok()) return In("all_reduce", result);
      digests->Add(rank, out);
      result = w.comm(rank).AllReduce(in.buffer(), in.buffer(), op, w.Options());
      if (result.ok()) result = ExpectReduced(in, op, dtype, w.size(), 0);
      digests->Add(rank, in);
      return In("all_reduce in place", result);
    });
  });
  return status.ok() ? digests->ExpectEqual() : status;
}

// One rank gives 1 + 2^-7, the others half a step of bf16 less than they need to be seen one by
// one.
absl::Status HalvesAccumulateInF32(World& world) {
  if (absl::Status skip = world.Need(Capability::kAllReduce); !skip.ok()) return skip;
  if (absl::Status skip = world.NeedRanks(3); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    struct Case {
      DataType dtype;
      int step;  // 2^-step is the distance of two neighbours above 1
    };
    for (const Case& c : {Case{DataType::kBF16, 7}, Case{DataType::kF16, 10}}) {
      const double large = 1 + std::ldexp(1, -c.step);
      const double small = std::ldexp(1, -c.step - 2);
      Tensor expected(c.dtype, 1);
      expected.Set(0, large + (w.size() - 1) * small);  // exact in f32, rounded once
      for (int at = 0; at < w.size(); ++at) {
        Tensor value(c.dtype, 1);
        value.Set(0, rank == at ? large : small);
        absl::Status status =
            w.comm(rank).AllReduce(value.buffer(), value.buffer(), ReduceOp::kSum, w.Options());
        if (!status.ok()) return status;
        if (value.Get(0) != expected.Get(0)) {
          return Broken("a sum of ", Name(c.dtype), " is ", value.Get(0),
                        ", and accumulated in f32 ", expected.Get(0));
        }
      }
    }
    Tensor value(DataType::kF16, 1);
    value.Set(0, 60000);
    absl::Status status =
        w.comm(rank).AllReduce(value.buffer(), value.buffer(), ReduceOp::kAverage, w.Options());
    if (!status.ok()) return status;
    if (value.Get(0) != 60000) {
      return Broken("the average of 60000 in f16 is ", value.Get(0),
                    ": the sum overflowed on the way");
    }
    return absl::OkStatus();
  });
}

template <class T>
absl::Status WrapsAround(World& w, int rank) {
  // The largest but one: times the size, and to its power, modulo 2^bits. (An odd power of the
  // largest is the largest again.)
  constexpr T kNearlyMax = std::numeric_limits<T>::max() - 1;
  uint64_t sum = 0;
  uint64_t product = 1;
  for (int r = 0; r < w.size(); ++r) {
    sum += static_cast<uint64_t>(kNearlyMax);
    product *= static_cast<uint64_t>(kNearlyMax);
  }
  for (const auto& [op, expected] : {std::pair(ReduceOp::kSum, static_cast<T>(sum)),
                                     std::pair(ReduceOp::kProduct, static_cast<T>(product))}) {
    T value = kNearlyMax;
    absl::Status status =
        w.comm(rank).AllReduce(Buffer::Of(value), Buffer::Of(value), op, w.Options());
    if (!status.ok()) return status;
    if (value != expected) {
      return Broken("a ", Name(op), " of ", Name(DataTypeOf<T>()),
                    " that overflows does not wrap around");
    }
  }
  return absl::OkStatus();
}

absl::Status IntegersWrapAround(World& world) {
  if (absl::Status skip = world.Need(Capability::kAllReduce); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    absl::Status status = WrapsAround<int8_t>(w, rank);
    status.Update(WrapsAround<uint8_t>(w, rank));
    status.Update(WrapsAround<int32_t>(w, rank));
    status.Update(WrapsAround<int64_t>(w, rank));
    return status;
  });
}

absl::Status NanStaysNan(World& world) {
  if (absl::Status skip = world.Need(Capability::kAllReduce); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    for (DataType dtype : {DataType::kF16, DataType::kBF16, DataType::kF32, DataType::kF64}) {
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kAverage}) {
        Tensor value(dtype, 3);
        value.Set(0, 1);
        value.Set(1, rank == w.size() - 1 ? std::numeric_limits<double>::quiet_NaN() : 1);
        value.Set(2, rank == 0 ? std::numeric_limits<double>::infinity() : 1);
        absl::Status status =
            w.comm(rank).AllReduce(value.buffer(), value.buffer(), op, w.Options());
        if (!status.ok()) return status;
        if (std::isnan(value.Get(0)) || !std::isnan(value.Get(1)) || !std::isinf(value.Get(2))) {
          return Broken(Name(op), " of ", Name(dtype), " of a number, a NaN and an infinity gave ",
                        value.Get(0), ", ", value.Get(1), " and ", value.Get(2));
        }
      }
    }
    return absl::OkStatus();
  });
}

absl::Status Reduce(World& world) {
  if (absl::Status skip = world.Need(Capability::kReduce); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    int root = 0;
    return ForEachReduction({0, 1, 67}, kLarge, [&](ReduceOp op, DataType dtype, int64_t count) {
      root = (root + 1) % w.size();
      Tensor in = ReductionInput(op, dtype, rank, count);
      Tensor out(dtype, count);
      out.Fill(0x33);
      const Tensor before = out;
      absl::Status status = w.comm(rank).Reduce(in.buffer(), out.buffer(), op, root, w.Options());
      if (!status.ok()) return In("reduce", status);
      if (rank == root) return In("reduce", ExpectReduced(out, op, dtype, w.size(), 0));
      return out.bytes() == before.bytes()
                 ? absl::OkStatus()
                 : Broken("reduce wrote to `out` of another rank than root");
    });
  });
}

absl::Status ReduceScatter(World& world) {
  if (absl::Status skip = world.Need(Capability::kReduceScatter); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    return ForEachReduction({0, 1, 67}, 20'011, [&](ReduceOp op, DataType dtype, int64_t count) {
      Tensor in = ReductionInput(op, dtype, rank, count * w.size());
      Tensor out(dtype, count);
      absl::Status status = w.comm(rank).ReduceScatter(in.buffer(), out.buffer(), op, w.Options());
      if (status.ok()) status = ExpectReduced(out, op, dtype, w.size(), rank * count);
      if (!status.ok()) return In("reduce_scatter", status);
      // In place: only the own slice is promised.
      const Buffer slice = in.buffer().Slice(rank * count, count);
      status = w.comm(rank).ReduceScatter(in.buffer(), slice, op, w.Options());
      if (!status.ok()) return In("reduce_scatter in place", status);
      Tensor own(dtype, count);
      for (int64_t i = 0; i < count; ++i) own.Set(i, in.Get(rank * count + i));
      status = ExpectReduced(own, op, dtype, w.size(), rank * count);
      return In("reduce_scatter in place", status.ok() ? in.CheckMargins() : status);
    });
  });
}

absl::Status Broadcast(World& world) {
  if (absl::Status skip = world.Need(Capability::kBroadcast); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    return ForEachType([&](DataType dtype, int64_t count) {
      for (int root = 0; root < w.size(); ++root) {
        Tensor value = MarkedInput(dtype, rank, count);
        absl::Status status = w.comm(rank).Broadcast(value.buffer(), root, w.Options());
        if (status.ok()) {
          status = ExpectElements(value, dtype, [root](int64_t i) { return Marked(root, i); });
        }
        if (!status.ok()) return In(absl::StrCat("broadcast from rank ", root), status);
      }
      return absl::OkStatus();
    });
  });
}

absl::Status AllGather(World& world) {
  if (absl::Status skip = world.Need(Capability::kAllGather); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    return ForEachType([&](DataType dtype, int64_t count) {
      const auto expected = [count](int64_t i) {
        return Marked(static_cast<int>(i / count), i % count);
      };
      Tensor in = MarkedInput(dtype, rank, count);
      Tensor out(dtype, count * w.size());
      absl::Status status = w.comm(rank).AllGather(in.buffer(), out.buffer(), w.Options());
      if (status.ok()) status = ExpectElements(out, dtype, expected);
      if (!status.ok()) return In("all_gather", status);
      Tensor both(dtype, count * w.size());
      for (int64_t i = 0; i < count; ++i) both.Set(rank * count + i, Marked(rank, i));
      status = w.comm(rank).AllGather(both.buffer().Slice(rank * count, count), both.buffer(),
                                      w.Options());
      if (status.ok()) status = ExpectElements(both, dtype, expected);
      return In("all_gather in place", status);
    });
  });
}

absl::Status Gather(World& world) {
  if (absl::Status skip = world.Need(Capability::kGather); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    int root = 0;
    return ForEachType([&](DataType dtype, int64_t count) {
      root = (root + 1) % w.size();
      Tensor in = MarkedInput(dtype, rank, count);
      Tensor out(dtype, rank == root ? count * w.size() : 0);
      absl::Status status = w.comm(rank).Gather(in.buffer(), out.buffer(), root, w.Options());
      if (status.ok()) {
        status = ExpectElements(out, dtype, [count](int64_t i) {
          return Marked(static_cast<int>(i / count), i % count);
        });
      }
      return In("gather", status);
    });
  });
}

absl::Status Scatter(World& world) {
  if (absl::Status skip = world.Need(Capability::kScatter); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    int root = 0;
    return ForEachType([&](DataType dtype, int64_t count) {
      root = (root + 1) % w.size();
      Tensor in = MarkedInput(dtype, root, rank == root ? count * w.size() : 0);
      Tensor out(dtype, count);
      absl::Status status = w.comm(rank).Scatter(in.buffer(), out.buffer(), root, w.Options());
      if (status.ok()) {
        status =
            ExpectElements(out, dtype, [&](int64_t i) { return Marked(root, rank * count + i); });
      }
      return In("scatter", status);
    });
  });
}

absl::Status AllToAll(World& world) {
  if (absl::Status skip = world.Need(Capability::kAllToAll); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    return ForEachType([&](DataType dtype, int64_t count) {
      // Element i of the slice that goes from one rank to another.
      const auto piece = [](int from, int to, int64_t i) { return Marked(from * 3 + to, i); };
      Tensor in(dtype, count * w.size());
      for (int64_t i = 0; i < in.count(); ++i) {
        in.Set(i, piece(rank, static_cast<int>(i / count), i % count));
      }
      Tensor out(dtype, in.count());
      absl::Status status = w.comm(rank).AllToAll(in.buffer(), out.buffer(), w.Options());
      if (status.ok()) {
        status = ExpectElements(out, dtype, [&](int64_t i) {
          return piece(static_cast<int>(i / count), rank, i % count);
        });
      }
      return In("all_to_all", status);
    });
  });
}

// Rank r sends (r + 2p) % 4 * scale elements to rank p: different for each pair, sometimes none.
absl::Status AllToAllV(World& world) {
  if (absl::Status skip = world.Need(Capability::kAllToAll); !skip.ok()) return skip;
  return Connected(world, [](World& w, int rank) {
    for (int64_t scale : {0, 1, 37, 9001}) {
      const auto count = [scale](int from, int to) { return (from + 2 * to) % 4 * scale; };
      std::vector<int64_t> in_counts;
      std::vector<int64_t> out_counts;
      std::vector<double> sent;
      std::vector<double> expected;
      for (int peer = 0; peer < w.size(); ++peer) {
        in_counts.push_back(count(rank, peer));
        out_counts.push_back(count(peer, rank));
        for (int64_t i = 0; i < in_counts.back(); ++i) sent.push_back(Marked(rank * 3 + peer, i));
        for (int64_t i = 0; i < out_counts.back(); ++i) {
          expected.push_back(Marked(peer * 3 + rank, i));
        }
      }
      Tensor in(DataType::kI32, static_cast<int64_t>(sent.size()));
      for (size_t i = 0; i < sent.size(); ++i) in.Set(static_cast<int64_t>(i), sent[i]);
      Tensor out(DataType::kI32, static_cast<int64_t>(expected.size()));
      absl::Status status =
          w.comm(rank).AllToAllV(in.buffer(), in_counts, out.buffer(), out_counts, w.Options());
      if (status.ok()) {
        status = ExpectElements(out, DataType::kI32, [&expected](int64_t i) {
          return expected[static_cast<size_t>(i)];
        });
      }
      if (!status.ok()) return In("all_to_all_v", status);
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::Span<const ConformanceCheck> CollectiveChecks() {
  static constexpr ConformanceCheck kChecks[] = {
      {"AllReduceIsRightAndBitEqualOnAllRanks",
       [](const ConformanceTarget& t) { return RunCheck(t, AllReduce); }},
      {"HalvesAccumulateInF32",
       [](const ConformanceTarget& t) { return RunCheck(t, HalvesAccumulateInF32); }},
      {"IntegersWrapAround",
       [](const ConformanceTarget& t) { return RunCheck(t, IntegersWrapAround); }},
      {"NanStaysNan", [](const ConformanceTarget& t) { return RunCheck(t, NanStaysNan); }},
      {"ReduceIsRightOnItsRootAlone",
       [](const ConformanceTarget& t) { return RunCheck(t, Reduce); }},
      {"ReduceScatterIsRight",
       [](const ConformanceTarget& t) { return RunCheck(t, ReduceScatter); }},
      {"BroadcastIsRightFromEveryRoot",
       [](const ConformanceTarget& t) { return RunCheck(t, Broadcast); }},
      {"AllGatherIsRight", [](const ConformanceTarget& t) { return RunCheck(t, AllGather); }},
      {"GatherIsRight", [](const ConformanceTarget& t) { return RunCheck(t, Gather); }},
      {"ScatterIsRight", [](const ConformanceTarget& t) { return RunCheck(t, Scatter); }},
      {"AllToAllIsRight", [](const ConformanceTarget& t) { return RunCheck(t, AllToAll); }},
      {"AllToAllVIsRight", [](const ConformanceTarget& t) { return RunCheck(t, AllToAllV); }},
  };
  return kChecks;
}

}  // namespace muster::testing::conformance

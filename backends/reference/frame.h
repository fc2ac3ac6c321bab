// What goes before the bytes of every message: which call of the communicator they belong to. Rank
// 0 compares the calls of all ranks, so that ranks which disagree learn it instead of mixing up
// data.
#ifndef MUSTER_BACKENDS_REFERENCE_FRAME_H_
#define MUSTER_BACKENDS_REFERENCE_FRAME_H_

#include <cstdint>
#include <string>

#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"

namespace muster::reference {

enum class Kind : uint8_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
  kAllToAllV,
  kBarrier,
  kSplit,
  kSend,
  kResult,  // rank 0's answer to a collective
  kError,   // instead of it: `count` is the code of a status, the bytes that follow are its message
};

// In the machine's byte order: all ranks run on one kind of machine. Fields that a kind does not
// use stay as they are here.
struct Frame {
  static constexpr uint32_t kMagic = 0x4d525346;

  uint32_t magic = kMagic;
  Kind kind = Kind::kBarrier;
  uint8_t dtype = 0;
  uint8_t op = 0;
  uint8_t unused = 0;
  int32_t root = -1;  // kSend: the receiver
  int32_t padding = 0;
  int64_t count = 0;  // elements: of `in`, for kScatter of `out`, for kAllToAllV 0
  int64_t bytes = 0;  // that follow

  DataType type() const { return static_cast<DataType>(dtype); }
  ReduceOp reduction() const { return static_cast<ReduceOp>(op); }

  // Whether both are one and the same call, of two ranks.
  bool SameCall(const Frame& other) const;
  std::string ToString() const;  // "reduce of f32[4] by sum to rank 1"
};

// How many bytes `rank` gives to a collective, and how many it takes away from it. Not for
// kAllToAllV.
int64_t BytesGiven(const Frame& call, int rank, int size);
int64_t BytesTaken(const Frame& call, int rank, int size);

}  // namespace muster::reference

#endif  // MUSTER_BACKENDS_REFERENCE_FRAME_H_

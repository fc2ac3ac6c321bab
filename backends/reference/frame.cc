#include "muster/backends/reference/frame.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"

namespace muster::reference {

bool Frame::SameCall(const Frame& other) const {
  return magic == other.magic && kind == other.kind && dtype == other.dtype && op == other.op &&
         root == other.root && count == other.count;
}

std::string Frame::ToString() const {
  if (magic != kMagic) return "something that is no call";
  const std::string what = absl::StrCat(" of ", Name(type()), "[", count, "]");
  switch (kind) {
    case Kind::kAllReduce:
      return absl::StrCat("all_reduce", what, " by ", Name(reduction()));
    case Kind::kBroadcast:
      return absl::StrCat("broadcast", what, " from rank ", root);
    case Kind::kReduce:
      return absl::StrCat("reduce", what, " by ", Name(reduction()), " to rank ", root);
    case Kind::kAllGather:
      return absl::StrCat("all_gather", what);
    case Kind::kGather:
      return absl::StrCat("gather", what, " to rank ", root);
    case Kind::kScatter:
      return absl::StrCat("scatter", what, " from rank ", root);
    case Kind::kReduceScatter:
      return absl::StrCat("reduce_scatter", what, " by ", Name(reduction()));
    case Kind::kAllToAll:
      return absl::StrCat("all_to_all", what);
    case Kind::kAllToAllV:
      return absl::StrCat("all_to_all_v of ", Name(type()));
    case Kind::kBarrier:
      return "barrier";
    case Kind::kSplit:
      return "split";
    case Kind::kSend:
      return absl::StrCat("send", what, " to rank ", root);
    case Kind::kResult:
      return "a result";
    case Kind::kError:
      return "an error";
  }
  return absl::StrCat("call number ", static_cast<int>(kind));
}

int64_t BytesGiven(const Frame& call, int rank, int size) {
  const int64_t bytes = call.count * SizeOf(call.type());
  switch (call.kind) {
    case Kind::kBroadcast:
      return rank == call.root ? bytes : 0;
    case Kind::kScatter:
      return rank == call.root ? size * bytes : 0;
    case Kind::kBarrier:
      return 0;
    default:
      return bytes;
  }
}

int64_t BytesTaken(const Frame& call, int rank, int size) {
  const int64_t bytes = call.count * SizeOf(call.type());
  switch (call.kind) {
    case Kind::kBroadcast:
      return rank == call.root ? 0 : bytes;
    case Kind::kReduce:
      return rank == call.root ? bytes : 0;
    case Kind::kAllGather:
    case Kind::kSplit:
      return size * bytes;
    case Kind::kGather:
      return rank == call.root ? size * bytes : 0;
    case Kind::kReduceScatter:
      return bytes / size;
    case Kind::kBarrier:
      return 0;
    default:
      return bytes;
  }
}

}  // namespace muster::reference

#include "muster/core/collective/arguments.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"

namespace muster {
namespace {

// An enumerator that was cast from a number may be anything.
bool IsKnown(DataType dtype) {
  return std::find(std::begin(kAllDataTypes), std::end(kAllDataTypes), dtype) !=
         std::end(kAllDataTypes);
}

bool IsKnown(ReduceOp op) {
  return std::find(std::begin(kAllReduceOps), std::end(kAllReduceOps), op) !=
         std::end(kAllReduceOps);
}

// Addresses as numbers: comparing pointers into two objects is undefined.
struct Range {
  explicit Range(const ConstBuffer& buffer)
      : begin(reinterpret_cast<uintptr_t>(buffer.data)),
        end(begin + static_cast<uintptr_t>(buffer.bytes())) {}
  bool Overlaps(const Range& other) const {
    return begin < end && other.begin < other.end && begin < other.end && other.begin < end;
  }
  uintptr_t begin;
  uintptr_t end;
};

std::string Distance(const Range& from, const Range& to) {
  return to.begin >= from.begin ? absl::StrCat(to.begin - from.begin, " bytes after")
                                : absl::StrCat(from.begin - to.begin, " bytes before");
}

// `in` and `out` may share memory only as `in_place` describes: out.data == allowed.
absl::Status CheckOverlap(const ConstBuffer& in, const ConstBuffer& out, bool in_place_ok,
                          absl::string_view in_place) {
  const Range from(in);
  const Range to(out);
  if (in_place_ok || !from.Overlaps(to)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("out (", out.ToString(), ") begins ",
                                                 Distance(from, to), " the begin of in (",
                                                 in.ToString(), ") and overlaps it: ", in_place));
}

absl::Status CheckOp(ReduceOp op, DataType dtype) {
  if (!IsKnown(op)) {
    return absl::InvalidArgumentError(absl::StrCat("the reduction is ", static_cast<int>(op),
                                                   ", which is no ReduceOp (0 to 4 are)"));
  }
  return CheckReduction(op, dtype);
}

// `whole` holds `size` slices of `part`.
absl::Status CheckSlices(const ConstBuffer& part, absl::string_view part_name,
                         const ConstBuffer& whole, absl::string_view whole_name, int size) {
  if (whole.count % size == 0 && whole.count / size == part.count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`", whole_name, "` is ", whole.ToString(), " and `", part_name, "` is ",
                   part.ToString(), ": `", whole_name, "` needs as many elements as the `",
                   part_name, "` of ", size, " ranks together, ", size, " * ", part.count));
}

absl::Status CheckCounts(absl::string_view name, const ConstBuffer& buffer,
                         absl::string_view counts_name, absl::Span<const int64_t> counts,
                         int size) {
  if (counts.size() != static_cast<size_t>(size)) {
    return absl::InvalidArgumentError(absl::StrCat(counts_name, " has ", counts.size(),
                                                   " entries: one for each of the ", size,
                                                   " ranks is needed"));
  }
  int64_t rest = buffer.count;
  for (size_t p = 0; p < counts.size(); ++p) {
    if (counts[p] < 0) {
      return absl::InvalidArgumentError(absl::StrCat(counts_name, "[", p, "] is ", counts[p],
                                                     ": a count of elements cannot be negative"));
    }
    if (counts[p] > rest) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", buffer.ToString(), " and ",
                                                     counts_name, " adds up to more with entry ", p,
                                                     ", which is ", counts[p]));
    }
    rest -= counts[p];
  }
  if (rest != 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", buffer.ToString(), " and ",
                                                   counts_name, " adds up to ", buffer.count - rest,
                                                   " only"));
  }
  return absl::OkStatus();
}

constexpr absl::string_view kSameOrApart = "give the same memory twice, or two that are apart";

}  // namespace

absl::Status ArgumentCheck::CheckBuffer(absl::string_view name, const ConstBuffer& buffer) const {
  if (!IsKnown(buffer.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " has the type ", static_cast<int>(buffer.dtype), ", which is no DataType"));
  }
  if (buffer.count < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", buffer.ToString(), ": a count of elements cannot be negative"));
  }
  const int64_t size = SizeOf(buffer.dtype);
  if (buffer.count > std::numeric_limits<int64_t>::max() / size) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", buffer.ToString(), ": that is more than any memory holds"));
  }
  if (buffer.device != device_) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", buffer.ToString(), ", and this group works on ",
                     device_.ToString(), ": copy it there, or use a group of that device"));
  }
  if (buffer.count == 0) return absl::OkStatus();
  if (buffer.data == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", buffer.ToString(), " at a null pointer"));
  }
  const uintptr_t misalignment =
      reinterpret_cast<uintptr_t>(buffer.data) % static_cast<uintptr_t>(size);
  if (misalignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", buffer.ToString(), " at an address ", misalignment,
                     " bytes past a multiple of ", size, ": align it to its elements"));
  }
  return absl::OkStatus();
}

absl::Status ArgumentCheck::CheckPair(const ConstBuffer& in, const Buffer& out) const {
  if (absl::Status status = CheckBuffer("in", in); !status.ok()) return status;
  if (absl::Status status = CheckBuffer("out", out); !status.ok()) return status;
  if (in.dtype != out.dtype) {
    return absl::InvalidArgumentError(absl::StrCat("in is ", in.ToString(), " and out is ",
                                                   out.ToString(), ": give both the same type"));
  }
  return absl::OkStatus();
}

absl::Status ArgumentCheck::CheckRoot(int root) const {
  if (root >= 0 && root < size_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("root is ", root, ": this group has the ranks 0 to ", size_ - 1));
}

absl::Status ArgumentCheck::CheckPeer(int peer) const {
  if (peer == rank_) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer is ", peer, ", this rank itself: name another one"));
  }
  if (peer >= 0 && peer < size_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("peer is ", peer, ": this group has the ranks 0 to ", size_ - 1));
}

absl::Status ArgumentCheck::AllReduce(const ConstBuffer& in, const Buffer& out, ReduceOp op) const {
  if (absl::Status status = CheckPair(in, out); !status.ok()) return status;
  if (absl::Status status = CheckOp(op, in.dtype); !status.ok()) return status;
  if (in.count != out.count) {
    return absl::InvalidArgumentError(absl::StrCat("in is ", in.ToString(), " and out is ",
                                                   out.ToString(), ": give both the same count"));
  }
  return CheckOverlap(in, out, in.data == out.data, kSameOrApart);
}

absl::Status ArgumentCheck::Broadcast(const Buffer& buffer, int root) const {
  if (absl::Status status = CheckBuffer("buffer", buffer); !status.ok()) return status;
  return CheckRoot(root);
}

absl::Status ArgumentCheck::Reduce(const ConstBuffer& in, const Buffer& out, ReduceOp op,
                                   int root) const {
  if (absl::Status status = CheckRoot(root); !status.ok()) return status;
  if (rank_ == root) return AllReduce(in, out, op);
  if (absl::Status status = CheckBuffer("in", in); !status.ok()) return status;
  return CheckOp(op, in.dtype);
}

absl::Status ArgumentCheck::AllGather(const ConstBuffer& in, const Buffer& out) const {
  if (absl::Status status = CheckPair(in, out); !status.ok()) return status;
  if (absl::Status status = CheckSlices(in, "in", out, "out", size_); !status.ok()) return status;
  return CheckOverlap(in, out, in.data == out.Slice(rank_ * in.count, in.count).data,
                      absl::StrCat("give slice ", rank_, " of out as in, or two that are apart"));
}

absl::Status ArgumentCheck::Gather(const ConstBuffer& in, const Buffer& out, int root) const {
  if (absl::Status status = CheckRoot(root); !status.ok()) return status;
  return rank_ == root ? AllGather(in, out) : CheckBuffer("in", in);
}

absl::Status ArgumentCheck::Scatter(const ConstBuffer& in, const Buffer& out, int root) const {
  if (absl::Status status = CheckRoot(root); !status.ok()) return status;
  if (rank_ != root) return CheckBuffer("out", out);
  if (absl::Status status = CheckPair(in, out); !status.ok()) return status;
  if (absl::Status status = CheckSlices(out, "out", in, "in", size_); !status.ok()) return status;
  return CheckOverlap(in, out, out.data == in.Slice(rank_ * out.count, out.count).data,
                      absl::StrCat("give slice ", rank_, " of in as out, or two that are apart"));
}

absl::Status ArgumentCheck::ReduceScatter(const ConstBuffer& in, const Buffer& out,
                                          ReduceOp op) const {
  if (absl::Status status = CheckPair(in, out); !status.ok()) return status;
  if (absl::Status status = CheckOp(op, in.dtype); !status.ok()) return status;
  if (absl::Status status = CheckSlices(out, "out", in, "in", size_); !status.ok()) return status;
  return CheckOverlap(in, out, out.data == in.Slice(rank_ * out.count, out.count).data,
                      absl::StrCat("give slice ", rank_, " of in as out, or two that are apart"));
}

absl::Status ArgumentCheck::AllToAll(const ConstBuffer& in, const Buffer& out) const {
  if (absl::Status status = CheckPair(in, out); !status.ok()) return status;
  if (in.count != out.count || in.count % size_ != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("in is ", in.ToString(), " and out is ", out.ToString(),
                     ": give both the same count, a multiple of the number of ranks, ", size_));
  }
  return CheckOverlap(in, out, false, "this operation does not work in place");
}

absl::Status ArgumentCheck::AllToAllV(const ConstBuffer& in, absl::Span<const int64_t> in_counts,
                                      const Buffer& out,
                                      absl::Span<const int64_t> out_counts) const {
  if (absl::Status status = CheckPair(in, out); !status.ok()) return status;
  absl::Status status = CheckCounts("in", in, "in_counts", in_counts, size_);
  if (!status.ok()) return status;
  status = CheckCounts("out", out, "out_counts", out_counts, size_);
  if (!status.ok()) return status;
  const size_t self = static_cast<size_t>(rank_);
  if (in_counts[self] != out_counts[self]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "in_counts[", rank_, "] is ", in_counts[self], " and out_counts[", rank_, "] is ",
        out_counts[self], ": this rank sends itself as much as it receives from itself"));
  }
  return CheckOverlap(in, out, false, "this operation does not work in place");
}

absl::Status ArgumentCheck::Send(const ConstBuffer& buffer, int peer) const {
  if (absl::Status status = CheckBuffer("buffer", buffer); !status.ok()) return status;
  return CheckPeer(peer);
}

absl::Status ArgumentCheck::Receive(const Buffer& buffer, int peer) const {
  return Send(buffer, peer);
}

absl::Status ArgumentCheck::Transfer(absl::Span<const PeerTransfer> transfers) const {
  struct Piece {
    Range range;
    size_t index;
    bool written;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const PeerTransfer& transfer = transfers[i];
    if (transfer.kind != PeerTransfer::Kind::kSend &&
        transfer.kind != PeerTransfer::Kind::kReceive) {
      return absl::InvalidArgumentError(
          absl::StrCat("transfer ", i, ": its kind is ", static_cast<int>(transfer.kind),
                       ", which is no PeerTransfer::Kind (0 to 1 are)"));
    }
    const std::string name = absl::StrCat("transfer ", i, ": buffer");
    if (absl::Status status = CheckBuffer(name, transfer.buffer); !status.ok()) return status;
    if (absl::Status status = CheckPeer(transfer.peer); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("transfer ", i, ": ", status.message()));
    }
    if (transfer.buffer.count > 0) {
      pieces.push_back({Range(transfer.buffer), i, transfer.kind == PeerTransfer::Kind::kReceive});
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.range.begin < b.range.begin; });
  // In the order of addresses: of the pieces so far, the one that reaches farthest, and the one of
  // those that are written.
  const Piece* farthest = nullptr;
  const Piece* farthest_written = nullptr;
  for (const Piece& piece : pieces) {
    const Piece* const other = piece.written ? farthest : farthest_written;
    if (other != nullptr && other->range.Overlaps(piece.range)) {
      return absl::InvalidArgumentError(
          absl::StrCat("transfers ", std::min(other->index, piece.index), " and ",
                       std::max(other->index, piece.index),
                       " share memory that is received into: give each receive memory of its own"));
    }
    if (farthest == nullptr || piece.range.end > farthest->range.end) farthest = &piece;
    if (piece.written &&
        (farthest_written == nullptr || piece.range.end > farthest_written->range.end)) {
      farthest_written = &piece;
    }
  }
  return absl::OkStatus();
}

}  // namespace muster

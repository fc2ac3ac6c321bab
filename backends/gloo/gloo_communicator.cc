#include "muster/backends/gloo/gloo_communicator.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gloo/allgather.h"
#include "gloo/allreduce.h"
#include "gloo/barrier.h"
#include "gloo/broadcast.h"
#include "muster/backends/gloo/gloo_calls.h"
#include "muster/backends/gloo/gloo_exchange.h"
#include "muster/backends/gloo/gloo_mesh.h"
#include "muster/backends/gloo/gloo_options.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/collective/reduction.h"
#include "muster/core/platform/fork_guard.h"

namespace muster {
namespace {

using Kind = GlooCall::Kind;

// Above all slots that gloo's collectives use.
constexpr uint64_t kCollectiveSlot = uint64_t{0x71} << 56;
constexpr uint64_t kPeerSlot = uint64_t{0x72} << 56;

// Of the collective that has begun.
GlooPiece Piece(GlooMesh& mesh, int peer, const ConstBuffer& buffer) {
  return {peer, kCollectiveSlot | mesh.calls().Slot(buffer.bytes()), const_cast<void*>(buffer.data),
          buffer.bytes()};
}

int64_t BytesOf(absl::Span<const PeerTransfer> transfers) {
  int64_t bytes = 0;
  for (const PeerTransfer& transfer : transfers) bytes += transfer.buffer.bytes();
  return bytes;
}

// `from` into `to`, where they are not the same memory.
void Copy(const ConstBuffer& from, const Buffer& to) {
  if (from.data != to.data && from.count > 0) {
    std::memmove(to.data, from.data, static_cast<size_t>(from.bytes()));
  }
}

absl::Status NoMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for what an operation on ", bytes,
                   " bytes needs beside its buffers: move less at a time, or look at the limits"));
}

bool IsHalf(DataType dtype) { return dtype == DataType::kF16 || dtype == DataType::kBF16; }

// T is any type of the size of an element: gloo wants to know no more.
template <class T>
void GlooAllReduce(GlooMesh& mesh, uint32_t tag, const GlooOptions& options, const ConstBuffer& in,
                   const Buffer& out, ReduceOp op) {
  ::gloo::AllreduceOptions all_reduce(mesh.context());
  all_reduce.setTag(tag);
  const size_t count = static_cast<size_t>(out.count);
  if (in.data != out.data) {
    all_reduce.setInput(static_cast<T*>(const_cast<void*>(in.data)), count);
  }
  all_reduce.setOutput(static_cast<T*>(out.data), count);
  all_reduce.setAlgorithm(options.all_reduce == GlooOptions::AllReduce::kRing
                              ? ::gloo::AllreduceOptions::Algorithm::RING
                              : ::gloo::AllreduceOptions::Algorithm::BCUBE);
  all_reduce.setMaxSegmentSize(static_cast<size_t>(options.segment_bytes));
  all_reduce.setReduceFunction(
      [dtype = out.dtype, op](void* result, const void* a, const void* b, size_t n) {
        if (result == b) std::swap(a, b);
        if (result != a && n > 0) std::memcpy(result, a, n * sizeof(T));
        ReduceInto(result, b, static_cast<int64_t>(n), dtype, op);
      });
  ::gloo::allreduce(all_reduce);
}

// Also in the place of a collective that moves nothing: its ranks are to find out that another one
// moves something.
void GlooBarrier(GlooMesh& mesh, uint32_t tag) {
  ::gloo::BarrierOptions barrier(mesh.context());
  barrier.setTag(tag);
  ::gloo::barrier(barrier);
}

}  // namespace

GlooCommunicator::GlooCommunicator(int rank, int size, const GlooOptions& options,
                                   std::unique_ptr<GlooMesh> mesh)
    : rank_(rank), size_(size), options_(options), made_in_(ForkGeneration()) {
  absl::MutexLock lock(&mutex_);
  if (mesh != nullptr) held_ = mesh->Held();
  mesh_ = std::move(mesh);
}

GlooCommunicator::~GlooCommunicator() {
  Abort(absl::AbortedError("the communicator was destroyed"));
  // In a forked child gloo's thread does not exist, and its destructors would wait for it for ever:
  // they do not run. The connections were closed when the process forked.
  if (made_in_ != ForkGeneration()) {
    const GlooMesh* const kept = mesh_.release();
    static_cast<void>(kept);
  }
}

// --- How it lives and ends

absl::Status GlooCommunicator::Enter() {
  // Before the mutex: another thread may have held it when the process forked.
  if (made_in_ != ForkGeneration()) {
    return absl::FailedPreconditionError(
        "the communicator was made before fork(): make a group of its own in the child");
  }
  absl::MutexLock lock(&mutex_);
  if (!cause_.ok()) return cause_;
  if (finalized_) return absl::FailedPreconditionError("the communicator is finalized");
  if (busy_) {
    return absl::FailedPreconditionError("another operation of this communicator is running");
  }
  if (!failure_.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("an earlier operation failed, only Abort may follow: ", failure_.message()));
  }
  busy_ = true;
  ++uses_;
  return absl::OkStatus();
}

absl::Status GlooCommunicator::Leave(absl::Status result) {
  {
    absl::MutexLock lock(&mutex_);
    busy_ = false;
    // What gloo says after an abort is its consequence.
    if (!cause_.ok() && !result.ok()) result = cause_;
    failure_.Update(result);
  }
  EndUse();
  return result;
}

void GlooCommunicator::EndUse() {
  std::unique_ptr<GlooMesh> mesh;
  {
    absl::MutexLock lock(&mutex_);
    if (--uses_ > 0 || (cause_.ok() && !finalized_)) return;
    mesh = std::move(mesh_);
  }
  mesh = nullptr;  // ends gloo's thread
  absl::MutexLock lock(&mutex_);
  held_ = Holdings();
}

absl::Status GlooCommunicator::Operation(absl::Time deadline, int64_t bytes,
                                         absl::FunctionRef<void()> alone,
                                         absl::FunctionRef<void(GlooMesh&)> body) {
  if (absl::Status refusal = Enter(); !refusal.ok()) return refusal;
  if (size_ == 1) {
    alone();
    return Leave(absl::OkStatus());
  }
  GlooMesh* mesh = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    mesh = mesh_.get();  // stays until EndUse
  }
  absl::Status result;
  try {
    mesh->SetDeadline(deadline);
    body(*mesh);
  } catch (const std::bad_alloc&) {
    result = NoMemory(bytes);
  } catch (const std::length_error&) {  // what a container says of more than there can be
    result = NoMemory(bytes);
  } catch (const std::exception& e) {
    result = mesh->Explain(e.what(), deadline);
  }
  return Leave(std::move(result));
}

void GlooCommunicator::Abort(const absl::Status& cause) noexcept {
  if (made_in_ != ForkGeneration()) return;  // the child holds nothing
  GlooMesh* mesh = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (finalized_ || !cause_.ok()) return;
    cause_ = cause.ok() ? absl::AbortedError("aborted without a cause") : cause;
    ++uses_;
    mesh = mesh_.get();
  }
  if (mesh != nullptr) mesh->Cut();
  EndUse();
}

// gloo has no orderly end: a connection that is closed while the peer still waits for what is under
// way takes that away from it. So all ranks meet once more, and each closes when nothing is under
// way.
absl::Status GlooCommunicator::Finalize(absl::Time deadline) {
  {
    absl::MutexLock lock(&mutex_);
    if (finalized_) return absl::OkStatus();
  }
  OperationOptions options;
  options.deadline = deadline;
  absl::Status met = Barrier(options);
  // A peer that is gone, dead or done, waits for nothing any more; and who sees one gone closes, so
  // the others may see that of a rank that lives: it would be blamed.
  if (!met.ok() && !absl::IsUnavailable(met)) return met;
  {
    absl::MutexLock lock(&mutex_);
    if (!cause_.ok()) return cause_;
    finalized_ = true;
    ++uses_;
  }
  EndUse();
  return absl::OkStatus();
}

Holdings GlooCommunicator::Held() const {
  if (made_in_ != ForkGeneration()) return Holdings();
  absl::MutexLock lock(&mutex_);
  return held_;
}

// --- gloo's collectives

void GlooCommunicator::AllReduceOn(GlooMesh& mesh, uint32_t tag, const ConstBuffer& in,
                                   const Buffer& out, ReduceOp op) {
  if (out.count == 0) return GlooBarrier(mesh, tag);
  if (IsHalf(out.dtype)) {
    // Widened once, so that no step on the way around the ring rounds.
    std::vector<float> wide(static_cast<size_t>(out.count));
    Widen(in.data, in.count, in.dtype, wide.data());
    const Buffer both = Buffer::Of(absl::MakeSpan(wide));
    AllReduceOn(mesh, tag, both, both, op);
    Narrow(wide.data(), out.count, out.dtype, out.data);
    return;
  }
  switch (SizeOf(out.dtype)) {
    case 1:
      GlooAllReduce<uint8_t>(mesh, tag, options_, in, out, op);
      break;
    case 4:
      GlooAllReduce<uint32_t>(mesh, tag, options_, in, out, op);
      break;
    default:
      GlooAllReduce<uint64_t>(mesh, tag, options_, in, out, op);
  }
  if (op == ReduceOp::kAverage) DivideBy(out.data, out.count, out.dtype, size_);
}

absl::Status GlooCommunicator::AllReduce(ConstBuffer in, Buffer out, ReduceOp op,
                                         const OperationOptions& options) {
  return Operation(
      options.deadline, out.bytes(), [&] { Copy(in, out); },
      [&](GlooMesh& mesh) {
        const uint32_t tag = mesh.calls().Begin({Kind::kAllReduce, out.dtype, op, -1, out.count});
        AllReduceOn(mesh, tag, in, out, op);
      });
}

absl::Status GlooCommunicator::Reduce(ConstBuffer in, Buffer out, ReduceOp op, int root,
                                      const OperationOptions& options) {
  return Operation(
      options.deadline, in.bytes(), [&] { Copy(in, out); },
      [&](GlooMesh& mesh) {
        const uint32_t tag = mesh.calls().Begin({Kind::kReduce, in.dtype, op, root, in.count});
        if (rank_ == root) return AllReduceOn(mesh, tag, in, out, op);
        std::vector<char> scratch(static_cast<size_t>(in.bytes()));
        AllReduceOn(mesh, tag, in, Buffer{scratch.data(), in.count, in.dtype, in.device}, op);
      });
}

absl::Status GlooCommunicator::Broadcast(Buffer buffer, int root, const OperationOptions& options) {
  return Operation(
      options.deadline, buffer.bytes(), [] {},
      [&](GlooMesh& mesh) {
        const uint32_t tag = mesh.calls().Begin(
            {Kind::kBroadcast, buffer.dtype, ReduceOp::kSum, root, buffer.count});
        if (buffer.count == 0) return GlooBarrier(mesh, tag);
        ::gloo::BroadcastOptions broadcast(mesh.context());
        broadcast.setTag(tag);
        broadcast.setOutput(static_cast<char*>(buffer.data), static_cast<size_t>(buffer.bytes()));
        broadcast.setRoot(root);
        ::gloo::broadcast(broadcast);
      });
}

absl::Status GlooCommunicator::AllGather(ConstBuffer in, Buffer out,
                                         const OperationOptions& options) {
  return Operation(
      options.deadline, out.bytes(), [&] { Copy(in, out); },
      [&](GlooMesh& mesh) {
        const uint32_t tag =
            mesh.calls().Begin({Kind::kAllGather, in.dtype, ReduceOp::kSum, -1, in.count});
        if (out.count == 0) return GlooBarrier(mesh, tag);
        ::gloo::AllgatherOptions all_gather(mesh.context());
        all_gather.setTag(tag);
        if (in.data != out.Slice(rank_ * in.count, in.count).data) {
          all_gather.setInput(static_cast<char*>(const_cast<void*>(in.data)),
                              static_cast<size_t>(in.bytes()));
        }
        all_gather.setOutput(static_cast<char*>(out.data), static_cast<size_t>(out.bytes()));
        ::gloo::allgather(all_gather);
      });
}

absl::Status GlooCommunicator::Barrier(const OperationOptions& options) {
  return Operation(
      options.deadline, 0, [] {},
      [](GlooMesh& mesh) { GlooBarrier(mesh, mesh.calls().Begin({})); });
}

// --- Exchanges over gloo's transport

// Each rank gets its slice of all others and reduces them in the order of ranks: as many bytes as a
// ring moves, and f16 and bf16 are rounded once.
absl::Status GlooCommunicator::ReduceScatter(ConstBuffer in, Buffer out, ReduceOp op,
                                             const OperationOptions& options) {
  return Operation(
      options.deadline, in.bytes(), [&] { Copy(in, out); },
      [&](GlooMesh& mesh) {
        mesh.calls().Begin({Kind::kReduceScatter, in.dtype, op, -1, in.count});
        const size_t slice = static_cast<size_t>(out.bytes());
        // new char[] is aligned for every type, and so are slices: they are whole elements.
        std::vector<std::unique_ptr<char[]>> received(static_cast<size_t>(size_));
        std::vector<GlooPiece> sends;
        std::vector<GlooPiece> receives;
        for (int peer = 0; peer < size_; ++peer) {
          if (peer == rank_) continue;
          received[static_cast<size_t>(peer)].reset(new char[slice]);
          sends.push_back(Piece(mesh, peer, in.Slice(peer * out.count, out.count)));
          const Buffer place{received[static_cast<size_t>(peer)].get(), out.count, out.dtype};
          receives.push_back(Piece(mesh, peer, place));
        }
        GlooExchange(mesh, sends, receives);
        Accumulator accumulator(out.count, out.dtype, op);
        for (int rank = 0; rank < size_; ++rank) {
          accumulator.Add(rank == rank_ ? in.Slice(rank * out.count, out.count).data
                                        : received[static_cast<size_t>(rank)].get());
        }
        accumulator.Finish(out.data, size_);
      });
}

absl::Status GlooCommunicator::Gather(ConstBuffer in, Buffer out, int root,
                                      const OperationOptions& options) {
  return Operation(
      options.deadline, in.bytes() * (rank_ == root ? size_ : 1), [&] { Copy(in, out); },
      [&](GlooMesh& mesh) {
        mesh.calls().Begin({Kind::kGather, in.dtype, ReduceOp::kSum, root, in.count});
        if (rank_ != root) return GlooExchange(mesh, {Piece(mesh, root, in)}, {});
        std::vector<GlooPiece> receives;
        for (int peer = 0; peer < size_; ++peer) {
          const Buffer slice = out.Slice(peer * in.count, in.count);
          if (peer == rank_) {
            Copy(in, slice);
          } else {
            receives.push_back(Piece(mesh, peer, slice));
          }
        }
        GlooExchange(mesh, {}, receives);
      });
}

absl::Status GlooCommunicator::Scatter(ConstBuffer in, Buffer out, int root,
                                       const OperationOptions& options) {
  return Operation(
      options.deadline, out.bytes() * (rank_ == root ? size_ : 1), [&] { Copy(in, out); },
      [&](GlooMesh& mesh) {
        mesh.calls().Begin({Kind::kScatter, out.dtype, ReduceOp::kSum, root, out.count});
        if (rank_ != root) return GlooExchange(mesh, {}, {Piece(mesh, root, out)});
        std::vector<GlooPiece> sends;
        for (int peer = 0; peer < size_; ++peer) {
          const ConstBuffer slice = in.Slice(peer * out.count, out.count);
          if (peer == rank_) {
            Copy(slice, out);
          } else {
            sends.push_back(Piece(mesh, peer, slice));
          }
        }
        GlooExchange(mesh, sends, {});
      });
}

absl::Status GlooCommunicator::AllToAll(ConstBuffer in, Buffer out,
                                        const OperationOptions& options) {
  return Operation(
      options.deadline, in.bytes() + out.bytes(), [&] { Copy(in, out); },
      [&](GlooMesh& mesh) {
        mesh.calls().Begin({Kind::kAllToAll, in.dtype, ReduceOp::kSum, -1, in.count});
        const std::vector<int64_t> counts(static_cast<size_t>(size_), in.count / size_);
        AllToAllOn(mesh, in, counts, out, counts);
      });
}

absl::Status GlooCommunicator::AllToAllV(ConstBuffer in, absl::Span<const int64_t> in_counts,
                                         Buffer out, absl::Span<const int64_t> out_counts,
                                         const OperationOptions& options) {
  return Operation(
      options.deadline, in.bytes() + out.bytes(), [&] { Copy(in, out); },
      [&](GlooMesh& mesh) {
        mesh.calls().BeginAllToAllV(in.dtype, in_counts, out_counts);
        AllToAllOn(mesh, in, in_counts, out, out_counts);
      });
}

void GlooCommunicator::AllToAllOn(GlooMesh& mesh, const ConstBuffer& in,
                                  absl::Span<const int64_t> in_counts, const Buffer& out,
                                  absl::Span<const int64_t> out_counts) {
  std::vector<GlooPiece> sends;
  std::vector<GlooPiece> receives;
  int64_t sent = 0;
  int64_t received = 0;
  for (int peer = 0; peer < size_; ++peer) {
    const ConstBuffer from = in.Slice(sent, in_counts[static_cast<size_t>(peer)]);
    const Buffer to = out.Slice(received, out_counts[static_cast<size_t>(peer)]);
    sent += from.count;
    received += to.count;
    if (peer == rank_) {
      Copy(from, to);
      continue;
    }
    sends.push_back(Piece(mesh, peer, from));
    receives.push_back(Piece(mesh, peer, to));
  }
  GlooExchange(mesh, sends, receives);
}

absl::Status GlooCommunicator::Send(ConstBuffer buffer, int peer, const OperationOptions& options) {
  const Buffer only_read{const_cast<void*>(buffer.data), buffer.count, buffer.dtype, buffer.device};
  return Transfer({{PeerTransfer::Kind::kSend, peer, only_read}}, options);
}

absl::Status GlooCommunicator::Receive(Buffer buffer, int peer, const OperationOptions& options) {
  return Transfer({{PeerTransfer::Kind::kReceive, peer, buffer}}, options);
}

absl::Status GlooCommunicator::Transfer(absl::Span<const PeerTransfer> transfers,
                                        const OperationOptions& options) {
  return Operation(
      options.deadline, BytesOf(transfers), [] {},
      [&](GlooMesh& mesh) {
        mesh.calls().BeginTransfer();
        std::vector<GlooPiece> sends;
        std::vector<GlooPiece> receives;
        for (const PeerTransfer& transfer : transfers) {
          const bool sent = transfer.kind == PeerTransfer::Kind::kSend;
          const uint64_t step =
              mesh.calls().Step(sent ? Kind::kSend : Kind::kReceive, transfer.peer,
                                transfer.buffer.dtype, transfer.buffer.count);
          (sent ? sends : receives)
              .push_back(
                  {transfer.peer, kPeerSlot | step, transfer.buffer.data, transfer.buffer.bytes()});
        }
        GlooExchange(mesh, sends, receives);
      });
}

}  // namespace muster

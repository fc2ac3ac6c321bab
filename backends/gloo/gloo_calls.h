// What the ranks called: how those that called something else find out.
//
// gloo moves bytes, whatever they are. So the number under which a message meets its receiver is
// made from all that a call says (Begin, Step): messages of calls that do not fit never meet, and
// no byte of one comes into a buffer of the other. That costs nothing, and both ranks wait. Who has
// waited for a while tells its peers what it called (ToTell, Heard), and Verdict says who called
// what:
//
//   broadcast.setTag(calls.Begin({Kind::kBroadcast, dtype, ReduceOp::kSum, root, count}));
//   ...                                                            // and in a wait that lasts:
//   for (const auto& [peer, note] : calls.ToTell()) Send(peer, note);   // which there is Heard
//   if (absl::Status status = calls.Verdict(); !status.ok()) throw ...; // "rank 0 broadcast ..."
#ifndef MUSTER_BACKENDS_GLOO_GLOO_CALLS_H_
#define MUSTER_BACKENDS_GLOO_GLOO_CALLS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"

namespace muster {

struct GlooCall {
  enum class Kind : uint8_t {
    kBarrier,
    kAllReduce,
    kBroadcast,
    kReduce,
    kAllGather,
    kGather,
    kScatter,
    kReduceScatter,
    kAllToAll,
    kAllToAllV,
    kSend,
    kReceive,
  };
  using Note = std::array<uint64_t, 4>;

  Kind kind = Kind::kBarrier;
  DataType dtype = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  int root = -1;       // of kSend, kReceive and a told kAllToAllV the peer
  int64_t count = 0;   // elements of `in`; for kScatter of `out`, for kAllToAllV those to the peer
  int64_t also = 0;    // kAllToAllV: elements from the peer; kSend, kReceive: collectives before it
  int64_t number = 0;  // of this collective, or of this step among those with its peer that way

  bool collective() const { return kind != Kind::kSend && kind != Kind::kReceive; }
  std::string ToString() const;  // "reduce of f32[4] by sum to rank 1"
  Note ToNote() const;
  static std::optional<GlooCall> FromNote(const Note& note);
};

// Of one communicator. On the thread of its operation, unless it says otherwise.
class GlooCalls {
 public:
  GlooCalls(int rank, int size);

  // The collective that begins, with `kind` to `count`. The tag of its messages.
  uint32_t Begin(const GlooCall& call);
  // With `count` of 0; the counts stay until the next call.
  void BeginAllToAllV(DataType dtype, absl::Span<const int64_t> to_peers,
                      absl::Span<const int64_t> from_peers);
  // The slot of a message of the collective, for what is not gloo's own algorithm. 56 bits.
  uint64_t Slot(int64_t bytes) const;

  // Point-to-point traffic begins; its steps follow in their order.
  void BeginTransfer();
  // A step of `kind` with `peer`. Its slot, 56 bits.
  uint64_t Step(GlooCall::Kind kind, int peer, DataType dtype, int64_t count);

  // For whom, and what.
  std::vector<std::pair<int, GlooCall::Note>> ToTell() const;
  // From any thread; `peer` told it.
  void Heard(int peer, const GlooCall::Note& note);

  // A peer has told what Verdict has not compared yet: a call that begins now may be what it does
  // not fit. Costs one load.
  bool pending() const { return pending_.load(std::memory_order_relaxed); }
  // A peer waits in a collective that this rank has not begun: only the peer can tell whether what
  // this rank does instead fits.
  bool IsBehind() const;

  // FailedPrecondition with what each rank called, when a peer is known to have called what does
  // not fit. The first one stays, whatever is heard later.
  absl::Status Verdict();
  std::string Current() const;  // what this rank called

 private:
  struct OfPeer {
    int64_t sent = 0;  // steps that began here
    int64_t received = 0;
  };
  struct HeardOfPeer {
    std::optional<GlooCall> collective;  // the last one
    std::vector<GlooCall> steps;         // those that were not over when we looked
  };

  GlooCall ForPeer(const GlooCall& call, int peer) const;
  // What we called where `peer` called `theirs`, when the two do not fit.
  std::optional<GlooCall> Misfit(int peer, const GlooCall& theirs) const;
  bool Needs(int peer) const;
  bool IsOver(int peer, const GlooCall& step) const;

  static constexpr int kKept = 64;
  static constexpr size_t kMostSteps = 1024;

  const int rank_;
  const int size_;
  bool in_collective_ = false;
  uint64_t hash_ = 0;                      // of the collective
  int64_t number_ = 0;                     // of the last collective
  std::array<GlooCall, kKept> past_ = {};  // by number, the last one included
  absl::Span<const int64_t> to_peers_;     // of a kAllToAllV that is under way
  absl::Span<const int64_t> from_peers_;
  std::vector<OfPeer> peers_;
  std::vector<GlooCall> steps_;  // of the transfer that is under way

  mutable absl::Mutex mutex_;
  std::vector<HeardOfPeer> heard_ ABSL_GUARDED_BY(mutex_);
  absl::Status verdict_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> pending_{false};  // written under mutex_
};

}  // namespace muster

#endif  // MUSTER_BACKENDS_GLOO_GLOO_CALLS_H_

#include "muster/backends/gloo/gloo_calls.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/platform/split_mix64.h"

namespace muster {
namespace {

using Kind = GlooCall::Kind;

// The same in every process, unlike absl::Hash.
uint64_t Mixed(uint64_t hash, uint64_t value) { return SplitMix64(hash ^ value).Next(); }

uint64_t HashOf(const GlooCall& call) {
  uint64_t hash = 0;
  for (uint64_t word : call.ToNote()) hash = Mixed(hash, word);
  return hash;
}

constexpr int kSlotBits = 56;

bool Same(const GlooCall& mine, const GlooCall& theirs) {
  if (mine.kind != theirs.kind || mine.dtype != theirs.dtype) return false;
  if (mine.kind != Kind::kAllToAllV) {
    return mine.op == theirs.op && mine.root == theirs.root && mine.count == theirs.count;
  }
  // Of one that is over the counts are gone; both got what they expected.
  return mine.root < 0 || (mine.count == theirs.also && mine.also == theirs.count);
}

}  // namespace

std::string GlooCall::ToString() const {
  const std::string what = absl::StrCat(" of ", Name(dtype), "[", count, "]");
  switch (kind) {
    case Kind::kBarrier:
      return "barrier";
    case Kind::kAllReduce:
      return absl::StrCat("all_reduce", what, " by ", Name(op));
    case Kind::kBroadcast:
      return absl::StrCat("broadcast", what, " from rank ", root);
    case Kind::kReduce:
      return absl::StrCat("reduce", what, " by ", Name(op), " to rank ", root);
    case Kind::kAllGather:
      return absl::StrCat("all_gather", what);
    case Kind::kGather:
      return absl::StrCat("gather", what, " to rank ", root);
    case Kind::kScatter:
      return absl::StrCat("scatter", what, " from rank ", root);
    case Kind::kReduceScatter:
      return absl::StrCat("reduce_scatter", what, " by ", Name(op));
    case Kind::kAllToAll:
      return absl::StrCat("all_to_all", what);
    case Kind::kAllToAllV:
      if (root < 0) return absl::StrCat("all_to_all_v of ", Name(dtype));
      return absl::StrCat("all_to_all_v of ", Name(dtype), " (", count, " to rank ", root, ", ",
                          also, " from it)");
    case Kind::kSend:
      return absl::StrCat("send", what, " to rank ", root);
    case Kind::kReceive:
      return absl::StrCat("receive", what, " from rank ", root);
  }
  return "something that is no call";
}

GlooCall::Note GlooCall::ToNote() const {
  const uint64_t first = static_cast<uint64_t>(kind) | static_cast<uint64_t>(dtype) << 8 |
                         static_cast<uint64_t>(op) << 16 |
                         static_cast<uint64_t>(static_cast<uint32_t>(root)) << 32;
  return {first, static_cast<uint64_t>(number), static_cast<uint64_t>(count),
          static_cast<uint64_t>(also)};
}

std::optional<GlooCall> GlooCall::FromNote(const Note& note) {
  const uint64_t kind = note[0] & 0xff;
  const uint64_t dtype = (note[0] >> 8) & 0xff;
  const uint64_t op = (note[0] >> 16) & 0xff;
  GlooCall call;
  call.kind = static_cast<Kind>(kind);
  call.dtype = static_cast<DataType>(dtype);
  call.op = static_cast<ReduceOp>(op);
  call.root = static_cast<int32_t>(static_cast<uint32_t>(note[0] >> 32));
  call.number = static_cast<int64_t>(note[1]);
  call.count = static_cast<int64_t>(note[2]);
  call.also = static_cast<int64_t>(note[3]);
  const bool known = kind <= static_cast<uint64_t>(Kind::kReceive) &&
                     std::find(std::begin(kAllDataTypes), std::end(kAllDataTypes), call.dtype) !=
                         std::end(kAllDataTypes) &&
                     std::find(std::begin(kAllReduceOps), std::end(kAllReduceOps), call.op) !=
                         std::end(kAllReduceOps) &&
                     call.number >= 0;
  return known ? std::optional<GlooCall>(call) : std::nullopt;
}

GlooCalls::GlooCalls(int rank, int size)
    : rank_(rank),
      size_(size),
      peers_(static_cast<size_t>(size)),
      heard_(static_cast<size_t>(size)) {}

uint32_t GlooCalls::Begin(const GlooCall& call) {
  in_collective_ = true;
  steps_.clear();
  to_peers_ = from_peers_ = {};
  GlooCall& kept = past_[static_cast<size_t>(++number_ % kKept)];
  kept = call;
  kept.number = number_;
  hash_ = HashOf(kept);
  return static_cast<uint32_t>(hash_ >> 32);
}

void GlooCalls::BeginAllToAllV(DataType dtype, absl::Span<const int64_t> to_peers,
                               absl::Span<const int64_t> from_peers) {
  GlooCall call;
  call.kind = Kind::kAllToAllV;
  call.dtype = dtype;
  Begin(call);
  to_peers_ = to_peers;
  from_peers_ = from_peers;
}

uint64_t GlooCalls::Slot(int64_t bytes) const {
  return Mixed(hash_, static_cast<uint64_t>(bytes)) >> (64 - kSlotBits);
}

void GlooCalls::BeginTransfer() {
  in_collective_ = false;
  steps_.clear();
  to_peers_ = from_peers_ = {};
}

uint64_t GlooCalls::Step(Kind kind, int peer, DataType dtype, int64_t count) {
  OfPeer& of_peer = peers_[static_cast<size_t>(peer)];
  GlooCall step;
  step.kind = kind;
  step.dtype = dtype;
  step.root = peer;
  step.count = count;
  step.number = kind == Kind::kSend ? of_peer.sent++ : of_peer.received++;
  step.also = number_;
  steps_.push_back(step);
  // What both sides know.
  GlooCall message;
  message.kind = Kind::kSend;
  message.dtype = dtype;
  message.count = count;
  message.number = step.number;
  return HashOf(message) >> (64 - kSlotBits);
}

GlooCall GlooCalls::ForPeer(const GlooCall& call, int peer) const {
  GlooCall told = call;
  if (call.kind == Kind::kAllToAllV && in_collective_ && call.number == number_ &&
      !to_peers_.empty()) {
    told.root = peer;
    told.count = to_peers_[static_cast<size_t>(peer)];
    told.also = from_peers_[static_cast<size_t>(peer)];
  }
  return told;
}

std::vector<std::pair<int, GlooCall::Note>> GlooCalls::ToTell() const {
  std::vector<std::pair<int, GlooCall::Note>> notes;
  if (in_collective_) {
    const GlooCall& call = past_[static_cast<size_t>(number_ % kKept)];
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) notes.push_back({peer, ForPeer(call, peer).ToNote()});
    }
  }
  for (const GlooCall& step : steps_) notes.push_back({step.root, step.ToNote()});
  return notes;
}

void GlooCalls::Heard(int peer, const GlooCall::Note& note) {
  const std::optional<GlooCall> call = GlooCall::FromNote(note);
  if (!call.has_value()) return;
  absl::MutexLock lock(&mutex_);
  HeardOfPeer& heard = heard_[static_cast<size_t>(peer)];
  if (call->collective()) {
    heard.collective = call;
  } else if (call->root == rank_ && heard.steps.size() < kMostSteps) {
    heard.steps.push_back(*call);
  } else {
    return;
  }
  pending_.store(true, std::memory_order_relaxed);
}

bool GlooCalls::IsBehind() const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(heard_.begin(), heard_.end(), [this](const HeardOfPeer& heard) {
    return heard.collective.has_value() && heard.collective->number > number_;
  });
}

bool GlooCalls::Needs(int peer) const {
  const GlooCall& call = past_[static_cast<size_t>(number_ % kKept)];
  switch (call.kind) {
    case Kind::kBroadcast:
      return size_ == 2 || peer == call.root;
    case Kind::kGather:
    case Kind::kScatter:
      return peer == call.root || rank_ == call.root;
    default:
      return true;
  }
}

bool GlooCalls::IsOver(int peer, const GlooCall& step) const {
  const OfPeer& of_peer = peers_[static_cast<size_t>(peer)];
  const Kind ours = step.kind == Kind::kSend ? Kind::kReceive : Kind::kSend;
  if (step.number >= (ours == Kind::kSend ? of_peer.sent : of_peer.received)) return false;
  return std::none_of(steps_.begin(), steps_.end(), [&](const GlooCall& own) {
    return own.kind == ours && own.root == peer && own.number == step.number;
  });
}

std::optional<GlooCall> GlooCalls::Misfit(int peer, const GlooCall& theirs) const {
  if (theirs.collective()) {
    if (theirs.number > number_ || theirs.number <= std::max<int64_t>(number_ - kKept, 0)) {
      return std::nullopt;
    }
    const GlooCall mine = ForPeer(past_[static_cast<size_t>(theirs.number % kKept)], peer);
    return Same(mine, theirs) ? std::nullopt : std::optional<GlooCall>(mine);
  }
  const Kind ours = theirs.kind == Kind::kSend ? Kind::kReceive : Kind::kSend;
  for (const GlooCall& own : steps_) {
    if (own.kind != ours || own.root != peer || own.number != theirs.number) continue;
    const bool fits = own.dtype == theirs.dtype && own.count == theirs.count;
    return fits ? std::nullopt : std::optional<GlooCall>(own);
  }
  // It waits for a step of ours, and we for it in a collective that it has not begun.
  if (in_collective_ && !IsOver(peer, theirs) && theirs.also < number_ && Needs(peer)) {
    return ForPeer(past_[static_cast<size_t>(number_ % kKept)], peer);
  }
  return std::nullopt;
}

absl::Status GlooCalls::Verdict() {
  absl::MutexLock lock(&mutex_);
  bool pending = false;
  for (int peer = 0; verdict_.ok() && peer < size_; ++peer) {
    HeardOfPeer& heard = heard_[static_cast<size_t>(peer)];
    heard.steps.erase(std::remove_if(heard.steps.begin(), heard.steps.end(),
                                     [&](const GlooCall& step) { return IsOver(peer, step); }),
                      heard.steps.end());
    std::vector<GlooCall> calls = heard.steps;
    if (heard.collective.has_value()) calls.push_back(*heard.collective);
    pending = pending || !heard.steps.empty() ||
              (heard.collective.has_value() && heard.collective->number > number_);
    for (const GlooCall& theirs : calls) {
      const std::optional<GlooCall> mine = Misfit(peer, theirs);
      if (!mine.has_value()) continue;
      const std::string ours = absl::StrCat("rank ", rank_, " ", mine->ToString());
      const std::string other = absl::StrCat("rank ", peer, " ", theirs.ToString());
      verdict_ = absl::FailedPreconditionError(
          absl::StrCat("the ranks called different operations: ", rank_ < peer ? ours : other, ", ",
                       rank_ < peer ? other : ours));
      break;
    }
  }
  pending_.store(pending, std::memory_order_relaxed);
  return verdict_;
}

std::string GlooCalls::Current() const {
  if (in_collective_) return past_[static_cast<size_t>(number_ % kKept)].ToString();
  return steps_.empty() ? "a transfer of nothing" : steps_.front().ToString();
}

}  // namespace muster

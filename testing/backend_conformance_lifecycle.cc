// The checks of how a communicator ends.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/testing/backend_conformance_world.h"

namespace muster::testing::conformance {
namespace {

const absl::Status& Cause() {
  static const auto* const cause = new absl::Status(absl::AbortedError("rank 7 was lost"));
  return *cause;
}

absl::Status UnlistedIsUnimplemented(World& world) {
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  status = world.Each([](World& w, int rank) {
    Communicator& comm = w.comm(rank);
    float value = 0;
    const Buffer buffer = Buffer::Of(value);
    const OperationOptions options = w.Options();
    const int peer = (rank + 1) % w.size();
    std::unique_ptr<ConnectStore> store;
    const ConnectContext context = w.Context(rank, store);
    const std::vector<int64_t> counts(static_cast<size_t>(w.size()));
    struct Case {
      Capability capability;
      const char* name;
      std::function<absl::Status()> call;
    };
    const Case cases[] = {
        {Capability::kAllReduce, "all_reduce",
         [&] { return comm.AllReduce(buffer, buffer, ReduceOp::kSum, options); }},
        {Capability::kBroadcast, "broadcast", [&] { return comm.Broadcast(buffer, 0, options); }},
        {Capability::kReduce, "reduce",
         [&] { return comm.Reduce(buffer, buffer, ReduceOp::kSum, 0, options); }},
        {Capability::kAllGather, "all_gather",
         [&] { return comm.AllGather(buffer.Slice(0, 0), buffer.Slice(0, 0), options); }},
        {Capability::kGather, "gather",
         [&] { return comm.Gather(buffer.Slice(0, 0), buffer.Slice(0, 0), 0, options); }},
        {Capability::kScatter, "scatter",
         [&] { return comm.Scatter(buffer.Slice(0, 0), buffer.Slice(0, 0), 0, options); }},
        {Capability::kReduceScatter, "reduce_scatter",
         [&] {
           return comm.ReduceScatter(buffer.Slice(0, 0), buffer.Slice(0, 0), ReduceOp::kSum,
                                     options);
         }},
        {Capability::kAllToAll, "all_to_all",
         [&] { return comm.AllToAll(buffer.Slice(0, 0), buffer.Slice(0, 0), options); }},
        {Capability::kAllToAll, "all_to_all_v",
         [&] {
           return comm.AllToAllV(buffer.Slice(0, 0), counts, buffer.Slice(0, 0), counts, options);
         }},
        {Capability::kBarrier, "barrier", [&] { return comm.Barrier(options); }},
        {Capability::kSendReceive, "send", [&] { return comm.Send(buffer, peer, options); }},
        {Capability::kSendReceive, "receive", [&] { return comm.Receive(buffer, peer, options); }},
        {Capability::kSendReceive, "transfer", [&] { return comm.Transfer({}, options); }},
        {Capability::kSplit, "split", [&] { return comm.Split(0, rank, context).status(); }},
        {Capability::kAllocate, "allocate", [&] { return comm.Allocate(64).status(); }},
        {Capability::kRegister, "register", [&] { return comm.Register(buffer).status(); }},
    };
    for (const Case& c : cases) {
      if (w.Has(c.capability)) continue;
      const absl::Status answer = c.call();
      if (!absl::IsUnimplemented(answer)) {
        return Broken(c.name, " is not among the capabilities (",
                      w.backend().capabilities().ToString(), ") and answered ", answer.ToString());
      }
    }
    return absl::OkStatus();
  });
  return status.ok() ? world.Finalize() : status;
}

absl::Status NothingWorksAfterFinalize(World& world) {
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  return world.Each([](World& w, int rank) {
    absl::Status result = w.comm(rank).Finalize(w.Later());
    if (!result.ok()) return Broken("Finalize: ", result.ToString());
    if (CanBlock(w)) {
      std::vector<float> values(64);
      if (AnyCollective(w, rank, values, w.Options()).ok()) {
        return Broken("an operation after Finalize succeeded");
      }
    }
    w.comm(rank).Abort(Cause());
    return w.ExpectNothingHeld(rank);
  });
}

absl::Status AbortOfAnIdleOneLeavesNothing(World& world) {
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  return world.Each([](World& w, int rank) {
    w.comm(rank).Abort(Cause());
    w.comm(rank).Abort(absl::AbortedError("a second cause"));
    absl::Status held = w.ExpectNothingHeld(rank);
    if (!held.ok()) return Broken("after Abort, ", held.message());
    if (!CanBlock(w)) return absl::OkStatus();
    std::vector<float> values(64);
    const absl::Status later = AnyCollective(w, rank, values, w.Options());
    if (later != Cause()) {
      return Broken("an operation after Abort gave ", later.ToString(), ", not the first cause");
    }
    return absl::OkStatus();
  });
}

using Operation = std::function<absl::Status(World& world, int rank)>;

struct Blocking {
  Capability capability;
  const char* name;
  Operation call;
};

// Each waits for a rank that never comes: rank 0 of the last ranks' point of view.
std::vector<Blocking> BlockingOperations() {
  // 4 MiB: more than what sockets take without the other side.
  const auto values = [] { return std::make_shared<std::vector<float>>(1 << 20); };
  std::vector<Blocking> result;
  result.push_back({Capability::kAllReduce, "all_reduce", [values](World& w, int rank) {
                      auto data = values();
                      const Buffer all = Buffer::Of(absl::MakeSpan(*data));
                      return w.comm(rank).AllReduce(all, all, ReduceOp::kSum, w.Options());
                    }});
  result.push_back({Capability::kBroadcast, "broadcast", [values](World& w, int rank) {
                      auto data = values();
                      return w.comm(rank).Broadcast(Buffer::Of(absl::MakeSpan(*data)), 0,
                                                    w.Options());
                    }});
  result.push_back(
      {Capability::kAllGather, "all_gather", [values](World& w, int rank) {
         auto data = values();
         const int64_t slice = static_cast<int64_t>(data->size()) / w.size();
         const Buffer all = Buffer::Of(absl::MakeSpan(*data)).Slice(0, slice * w.size());
         return w.comm(rank).AllGather(all.Slice(rank * slice, slice), all, w.Options());
       }});
  result.push_back({Capability::kReduceScatter, "reduce_scatter", [values](World& w, int rank) {
                      auto data = values();
                      const int64_t slice = static_cast<int64_t>(data->size()) / w.size();
                      const Buffer all =
                          Buffer::Of(absl::MakeSpan(*data)).Slice(0, slice * w.size());
                      return w.comm(rank).ReduceScatter(all, all.Slice(rank * slice, slice),
                                                        ReduceOp::kSum, w.Options());
                    }});
  result.push_back({Capability::kBarrier, "barrier",
                    [](World& w, int rank) { return w.comm(rank).Barrier(w.Options()); }});
  result.push_back({Capability::kSendReceive, "receive", [values](World& w, int rank) {
                      auto data = values();
                      return w.comm(rank).Receive(Buffer::Of(absl::MakeSpan(*data)), 0,
                                                  w.Options());
                    }});
  return result;
}

absl::Status AbortWakesEachBlockedOperation(World& world) {
  if (absl::Status skip = world.NeedRanks(2); !skip.ok()) return skip;
  const int last = world.size() - 1;
  bool any = false;
  for (const Blocking& operation : BlockingOperations()) {
    if (!world.Has(operation.capability)) continue;
    any = true;
    absl::Status status = world.Connect();
    if (!status.ok()) return status;
    Call blocked = world.Start([call = operation.call, last](World& w) { return call(w, last); });
    blocked.LetItBlock(world.bound());
    const absl::Time before = MonotonicNow();
    world.comm(last).Abort(Cause());
    if (MonotonicNow() - before > world.bound()) {
      return Broken("Abort of a blocked ", operation.name, " took ",
                    absl::FormatDuration(MonotonicNow() - before));
    }
    const std::optional<absl::Status> result = blocked.Result(world.bound());
    if (!result.has_value()) return Broken("Abort did not wake a blocked ", operation.name);
    if (*result != Cause()) {
      return Broken("an aborted ", operation.name, " gave ", result->ToString(), ", not the cause");
    }
    status = world.ExpectNothingHeld(last);
    if (!status.ok()) return Broken("after an aborted ", operation.name, ", ", status.message());
  }
  return any ? absl::OkStatus() : NothingToCheck("the backend offers no operation that blocks");
}

absl::Status AbortEndsFinalize(World& world) {
  if (absl::Status skip = world.NeedRanks(2); !skip.ok()) return skip;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  // The others never finalize. Whether this one waits for them is its business; Abort ends the
  // wait.
  Call finalize = world.Start([](World& w) { return w.comm(0).Finalize(w.Later()); });
  finalize.LetItBlock(world.bound());
  world.comm(0).Abort(Cause());
  const std::optional<absl::Status> result = finalize.Result(world.bound());
  if (!result.has_value()) return Broken("Abort did not wake a blocked Finalize");
  if (!result->ok() && *result != Cause()) {
    return Broken("an aborted Finalize gave ", result->ToString(), ", not the cause");
  }
  return world.ExpectNothingHeld(0);
}

// A group asks it of a backend that is stuck, to tell what was not given back.
absl::Status HeldWaitsForNobody(World& world) {
  if (absl::Status skip = world.NeedBlocking(); !skip.ok()) return skip;
  const int last = world.size() - 1;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  Call blocked = world.Start([last](World& w) {
    std::vector<float> values(1 << 20);
    return AnyCollective(w, last, values, w.Options());
  });
  blocked.LetItBlock(world.bound());
  Call held = world.Start([last](World& w) {
    static_cast<void>(w.comm(last).Held());
    return absl::OkStatus();
  });
  const bool answered = held.Result(world.bound()).has_value();
  world.comm(last).Abort(Cause());
  if (!blocked.Result(world.bound()).has_value()) return Broken("Abort did not wake an operation");
  return answered ? absl::OkStatus() : Broken("Held() waits for an operation");
}

absl::Status FinalizeIsBounded(World& world) {
  if (absl::Status skip = world.NeedRanks(2); !skip.ok()) return skip;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  Call finalize = world.Start(
      [](World& w) { return w.comm(0).Finalize(MonotonicNow() + absl::Milliseconds(100)); });
  const std::optional<absl::Status> result = finalize.Result(world.bound());
  if (!result.has_value()) return Broken("Finalize did not return after its deadline");
  world.comm(0).Abort(Cause());
  return world.ExpectNothingHeld(0);
}

// All have agreed that nothing is to follow, so a peer that dies then takes nothing away; and in a
// job of three the one that says so may be blamed by the third.
absl::Status FinalizeEndsWithoutAPeerThatIsGone(World& world) {
  if (absl::Status skip = world.NeedRanks(2); !skip.ok()) return skip;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  Call finalize = world.Start([](World& w) { return w.comm(0).Finalize(w.Later()); });
  finalize.LetItBlock(world.bound());
  for (int rank = 1; rank < world.size(); ++rank) world.comm(rank).Abort(Cause());
  const std::optional<absl::Status> result = finalize.Result(world.bound());
  if (!result.has_value()) return Broken("Finalize waits for a peer that is gone");
  if (!result->ok()) return Broken("Finalize, whose peers had gone, gave ", result->ToString());
  return world.ExpectNothingHeld(0);
}

absl::Status AbortFromManyThreads(World& world) {
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  const int last = world.size() - 1;
  const auto cause = [](int i) { return absl::AbortedError(absl::StrCat("cause ", i)); };
  Call blocked = world.Start([last](World& w) {
    std::vector<float> values(1024);
    return CanBlock(w) ? AnyCollective(w, last, values, w.Options()) : Cause();
  });
  blocked.LetItBlock(world.bound());
  constexpr int kThreads = 8;
  std::vector<Call> aborts;
  for (int i = 0; i < kThreads; ++i) {
    aborts.push_back(world.Start([last, cause, i](World& w) {
      w.comm(last).Abort(cause(i));
      return absl::OkStatus();
    }));
  }
  for (Call& abort : aborts) {
    if (!abort.Result(world.bound()).has_value()) {
      return Broken("one of many Aborts did not return");
    }
  }
  const std::optional<absl::Status> result = blocked.Result(world.bound());
  if (!result.has_value()) return Broken("many Aborts at once did not wake a blocked operation");
  status = world.ExpectNothingHeld(last);
  if (!status.ok()) return Broken("after many Aborts at once, ", status.message());
  if (!CanBlock(world)) return absl::OkStatus();
  int matches = 0;
  for (int i = 0; i < kThreads; ++i) matches += *result == cause(i) ? 1 : 0;
  if (matches != 1) {
    return Broken("after many Aborts at once the operation gave ", result->ToString(),
                  ", which is none of the causes");
  }
  std::vector<float> values(1024);
  const absl::Status later = AnyCollective(world, last, values, world.Options());
  return later == *result ? absl::OkStatus()
                          : Broken("after the cause ", result->ToString(),
                                   " another operation gave ", later.ToString());
}

// One rank goes. Each of the others fails in its operation and aborts, as its group does; none
// waits for the operation's deadline.
absl::Status AnAbortReachesThePeers(World& world) {
  if (absl::Status skip = world.NeedBlocking(); !skip.ok()) return skip;
  const int last = world.size() - 1;
  for (bool before : {true, false}) {
    absl::Status status = world.Connect();
    if (!status.ok()) return status;
    if (before) world.comm(last).Abort(Cause());
    std::vector<Call> calls;
    for (int rank = 0; rank < last; ++rank) {
      calls.push_back(world.Start([rank](World& w) {
        std::vector<float> values(1 << 20);
        absl::Status result = AnyCollective(w, rank, values, w.Options());
        w.comm(rank).Abort(absl::AbortedError("a peer was lost"));
        return result;
      }));
    }
    if (!before) {
      for (const Call& call : calls) call.LetItBlock(world.bound());
      world.comm(last).Abort(Cause());
    }
    for (int rank = 0; rank < last; ++rank) {
      const auto result = calls[static_cast<size_t>(rank)].Result(world.bound());
      if (!result.has_value()) return Broken("rank ", rank, " did not notice that a peer aborted");
      if (!absl::IsUnavailable(*result)) {
        return Broken("after a peer aborted, rank ", rank, " got ", result->ToString(),
                      ", not Unavailable");
      }
      status = world.ExpectNothingHeld(rank);
      if (!status.ok()) return Broken("rank ", rank, ": ", status.message());
    }
  }
  return absl::OkStatus();
}

absl::Status DestroyedOnesAreNoticed(World& world) {
  if (absl::Status skip = world.NeedBlocking(); !skip.ok()) return skip;
  const int last = world.size() - 1;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  world.owner(last) = nullptr;
  std::vector<Call> calls;
  for (int rank = 0; rank < last; ++rank) {
    calls.push_back(world.Start([rank](World& w) {
      std::vector<float> values(1024);
      absl::Status result = AnyCollective(w, rank, values, w.Options());
      w.owner(rank) = nullptr;
      return result;
    }));
  }
  for (Call& call : calls) {
    const std::optional<absl::Status> result = call.Result(world.bound());
    if (!result.has_value()) return Broken("a rank did not notice that a peer was destroyed");
    if (result->ok()) return Broken("an operation without one of its ranks succeeded");
  }
  return absl::OkStatus();
}

absl::Status DeadlineEndsAnOperation(World& world) {
  if (absl::Status skip = world.NeedBlocking(); !skip.ok()) return skip;
  const int last = world.size() - 1;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  const absl::Time deadline = MonotonicNow() + absl::Milliseconds(200);
  Call blocked = world.Start([last, deadline](World& w) {
    std::vector<float> values(1024);
    OperationOptions options;
    options.deadline = deadline;
    return AnyCollective(w, last, values, options);
  });
  const std::optional<absl::Status> result = blocked.Result(world.bound());
  if (!result.has_value()) return Broken("an operation did not return after its deadline");
  if (!absl::IsDeadlineExceeded(*result)) {
    return Broken("an operation whose deadline passed gave ", result->ToString());
  }
  if (MonotonicNow() < deadline) return Broken("an operation ended before its deadline");
  world.comm(last).Abort(Cause());
  return world.ExpectNothingHeld(last);
}

// The operation of one rank is aborted; then a peer sends what it had waited for.
absl::Status BuffersAreTheCallersAfterwards(World& world) {
  if (absl::Status skip = world.NeedBlocking(); !skip.ok()) return skip;
  const int last = world.size() - 1;
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  auto values = std::make_shared<std::vector<float>>(1 << 18, 1.0f);
  Call blocked = world.Start(
      [last, values](World& w) { return AnyCollective(w, last, *values, w.Options()); });
  blocked.LetItBlock(world.bound());
  world.comm(last).Abort(Cause());
  if (!blocked.Result(world.bound()).has_value()) return Broken("Abort did not wake an operation");
  values->assign(values->size(), 42.0f);

  std::vector<Call> calls;
  for (int rank = 0; rank < last; ++rank) {
    calls.push_back(world.Start([rank](World& w) {
      std::vector<float> mine(1 << 18, 2.0f);
      absl::Status result = AnyCollective(w, rank, mine, w.Options());
      w.comm(rank).Abort(Cause());
      return result;
    }));
  }
  for (Call& call : calls) {
    if (!call.Result(world.bound()).has_value()) {
      return Broken("a rank did not notice that a peer aborted");
    }
  }
  for (float value : *values) {
    if (value != 42.0f) return Broken("a buffer was written to after its operation had returned");
  }
  return absl::OkStatus();
}

// Abort against operations that are about to succeed: whatever comes first, all ranks end. A sweep
// over moments, which synchronises nothing; the ranks work until the abort reaches them, so that
// each moment is one of theirs.
absl::Status AbortAtAnyMoment(World& world) {
  if (absl::Status skip = world.NeedBlocking(); !skip.ok()) return skip;
  for (int attempt = 0; attempt < 20; ++attempt) {
    absl::Status status = world.Connect();
    if (!status.ok()) return status;
    const int victim = attempt % world.size();
    Call all = world.Start([](World& w) {
      return w.Each([](World& each, int rank) {
        std::vector<float> values(4096);
        const absl::Time limit = each.Later();
        while (AnyCollective(each, rank, values, each.Options()).ok()) {
          if (MonotonicNow() >= limit) return Broken("operations go on after Abort of a rank");
        }
        each.comm(rank).Abort(Cause());
        return absl::OkStatus();
      });
    });
    absl::SleepFor(absl::Microseconds(300) * attempt);
    world.comm(victim).Abort(Cause());
    const std::optional<absl::Status> result = all.Result(2 * world.bound());
    if (!result.has_value()) return Broken("after Abort of one rank not all ended");
    if (!result->ok()) return *result;
    for (int rank = 0; rank < world.size(); ++rank) {
      status = world.ExpectNothingHeld(rank);
      if (!status.ok()) return Broken("rank ", rank, ": ", status.message());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const ConformanceCheck> LifecycleChecks() {
  static constexpr ConformanceCheck kChecks[] = {
      {"WhatIsNotListedIsUnimplemented",
       [](const ConformanceTarget& t) { return RunCheck(t, UnlistedIsUnimplemented); }},
      {"NothingWorksAfterFinalize",
       [](const ConformanceTarget& t) { return RunCheck(t, NothingWorksAfterFinalize); }},
      {"FinalizeIsBounded",
       [](const ConformanceTarget& t) { return RunCheck(t, FinalizeIsBounded); }},
      {"FinalizeEndsWithoutAPeerThatIsGone",
       [](const ConformanceTarget& t) { return RunCheck(t, FinalizeEndsWithoutAPeerThatIsGone); }},
      {"AbortOfAnIdleOneLeavesNothing",
       [](const ConformanceTarget& t) { return RunCheck(t, AbortOfAnIdleOneLeavesNothing); }},
      {"AbortWakesEachBlockedOperation",
       [](const ConformanceTarget& t) { return RunCheck(t, AbortWakesEachBlockedOperation); }},
      {"HeldWaitsForNobody",
       [](const ConformanceTarget& t) { return RunCheck(t, HeldWaitsForNobody); }},
      {"AbortEndsFinalize",
       [](const ConformanceTarget& t) { return RunCheck(t, AbortEndsFinalize); }},
      {"AbortFromManyThreadsHasOneCause",
       [](const ConformanceTarget& t) { return RunCheck(t, AbortFromManyThreads); }},
      {"AbortAtAnyMomentEndsAllRanks",
       [](const ConformanceTarget& t) { return RunCheck(t, AbortAtAnyMoment); }},
      {"AnAbortReachesThePeers",
       [](const ConformanceTarget& t) { return RunCheck(t, AnAbortReachesThePeers); }},
      {"ADestructorReachesThePeers",
       [](const ConformanceTarget& t) { return RunCheck(t, DestroyedOnesAreNoticed); }},
      {"ADeadlineEndsAnOperation",
       [](const ConformanceTarget& t) { return RunCheck(t, DeadlineEndsAnOperation); }},
      {"BuffersAreTheCallersAfterwards",
       [](const ConformanceTarget& t) { return RunCheck(t, BuffersAreTheCallersAfterwards); }},
  };
  return kChecks;
}

}  // namespace muster::testing::conformance

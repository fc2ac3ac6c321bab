#include "muster/testing/backend_conformance_world.h"

#include <signal.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster::testing::conformance {
namespace {

std::atomic<int> sigpipes{0};

void CountSigpipe(int) { sigpipes.fetch_add(1); }

// Counts the SIGPIPEs of the process while it lives, which by default would end it.
class SigpipeCounter {
 public:
  SigpipeCounter() {
    sigpipes = 0;
    struct sigaction action = {};
    action.sa_handler = CountSigpipe;
    sigaction(SIGPIPE, &action, &before_);
  }
  ~SigpipeCounter() { sigaction(SIGPIPE, &before_, nullptr); }

  absl::Status Expect() const {
    struct sigaction now = {};
    sigaction(SIGPIPE, nullptr, &now);
    if (now.sa_handler != CountSigpipe) {
      return Broken("the backend changed the process's disposition of SIGPIPE");
    }
    if (sigpipes > 0) return Broken("a write raised SIGPIPE ", sigpipes.load(), " times");
    return absl::OkStatus();
  }

 private:
  struct sigaction before_ = {};
};

}  // namespace

Call::Call(std::function<absl::Status()> body)
    : state_(std::make_shared<State>()),
      thread_([state = state_, body = std::move(body)]() mutable {
        absl::Status result = body();
        body = nullptr;  // what it holds is gone before the result is there
        absl::MutexLock lock(&state->mutex);
        state->result = std::move(result);
      }) {}

void Call::LetItBlock(absl::Duration limit) const { thread_.AwaitAsleep(MonotonicNow() + limit); }

Call::~Call() {
  if (!thread_.joinable()) return;
  if (Result(absl::ZeroDuration()).has_value()) return;
  thread_.detach();
}

std::optional<absl::Status> Call::Result(absl::Duration limit) {
  std::optional<absl::Status> result;
  {
    absl::MutexLock lock(&state_->mutex);
    const auto done = [this] {
      state_->mutex.AssertReaderHeld();
      return state_->result.has_value();
    };
    if (!state_->mutex.AwaitWithTimeout(absl::Condition(&done), limit)) return std::nullopt;
    result = state_->result;
  }
  if (thread_.joinable()) thread_.join();
  return result;
}

namespace {}  // namespace

absl::Status NothingToCheck(absl::string_view why) {
  absl::Status status = absl::UnimplementedError(absl::StrCat("nothing to check: ", why));
  status.SetPayload(kNothingToCheck, absl::Cord());
  return status;
}

absl::Status ExpectNoMoreThan(const ProcessHoldings& before, absl::Duration bound) {
  const ProcessHoldings left = ProcessHoldings::Beyond(before, bound);
  if (left.empty()) return absl::OkStatus();
  return Broken("the process holds more than before: ", left.ToString());
}

absl::Status World::Need(Capability capability) const {
  if (Has(capability)) return absl::OkStatus();
  return NothingToCheck(absl::StrCat("the backend does not offer ", Name(capability)));
}

absl::Status World::NeedRanks(int ranks) const {
  if (size() >= ranks) return absl::OkStatus();
  return NothingToCheck(absl::StrCat("it takes ", ranks, " ranks, and there are ", size()));
}

absl::Status World::NeedBlocking() const {
  if (absl::Status skip = NeedRanks(2); !skip.ok()) return skip;
  if (CanBlock(*this)) return absl::OkStatus();
  return NothingToCheck("the backend offers neither all_reduce, nor all_gather, nor barrier");
}

World::World(const ConformanceTarget& target)
    : target_(target), bound_(TimeoutScale() * target.bound) {
  Reset();
}

std::shared_ptr<World> World::Make(const ConformanceTarget& target) {
  return std::shared_ptr<World>(new World(target));
}

absl::Time World::Later() const { return MonotonicNow() + 3 * bound_; }

OperationOptions World::Options() const {
  OperationOptions options;
  options.deadline = Later();
  return options;
}

void World::Reset() {
  comms_.clear();
  cancellations_.clear();
  hub_ = std::make_unique<MemoryConnectHub>(size());
  for (int rank = 0; rank < size(); ++rank) {
    cancellations_.push_back(std::make_unique<Cancellation>());
  }
  comms_.resize(static_cast<size_t>(size()));
}

ConnectContext World::Context(int rank, std::unique_ptr<ConnectStore>& store) {
  store = hub_->ForRank(rank, &cancellation(rank));
  ConnectContext context;
  context.rank = rank;
  context.size = size();
  context.group = "conformance/1";
  context.options = target_.options;
  context.store = store.get();
  context.deadline = Later();
  context.cancellation = &cancellation(rank);
  return context;
}

absl::Status World::ConnectRank(int rank) {
  std::unique_ptr<ConnectStore> store;
  const ConnectContext context = Context(rank, store);
  absl::StatusOr<std::unique_ptr<Communicator>> made = backend().Connect(context);
  if (!made.ok()) return made.status();
  if (*made == nullptr) return Broken("Connect returned OK and a null pointer");
  owner(rank) = *std::move(made);
  return absl::OkStatus();
}

absl::Status World::Connect() {
  Reset();
  return Each([](World& world, int rank) {
    absl::Status status = world.ConnectRank(rank);
    return status.ok() ? status : Broken("Connect: ", status.ToString());
  });
}

absl::Status World::Each(std::function<absl::Status(World&, int rank)> body) {
  // The first in time: later ones are mostly its consequences.
  struct First {
    absl::Mutex mutex;
    absl::Status error ABSL_GUARDED_BY(mutex);
  };
  auto first = std::make_shared<First>();
  std::vector<Call> calls;
  for (int rank = 0; rank < size(); ++rank) {
    calls.push_back(Start([body, rank, first](World& world) {
      absl::Status status = body(world, rank);
      if (status.ok()) return status;
      absl::MutexLock lock(&first->mutex);
      first->error.Update(Broken("rank ", rank, ": ", status.message()));
      return status;
    }));
  }
  const absl::Time deadline = MonotonicNow() + 6 * bound_;
  for (int rank = 0; rank < size(); ++rank) {
    if (!calls[static_cast<size_t>(rank)].Result(deadline - MonotonicNow()).has_value()) {
      absl::MutexLock lock(&first->mutex);
      first->error.Update(Broken("rank ", rank, " did not return"));
    }
  }
  absl::MutexLock lock(&first->mutex);
  return first->error;
}

Call World::Start(std::function<absl::Status(World&)> body) {
  return Call([self = shared_from_this(), body = std::move(body)] { return body(*self); });
}

absl::Status World::ExpectNothingHeld(int rank) const {
  const Holdings held = comms_[static_cast<size_t>(rank)]->Held();
  return held.empty() ? absl::OkStatus() : Broken("Held() says ", held.ToString());
}

absl::Status World::Finalize() {
  return Each([](World& world, int rank) {
    absl::Status status = world.comm(rank).Finalize(world.Later());
    if (!status.ok()) return Broken("Finalize: ", status.ToString());
    status = world.ExpectNothingHeld(rank);
    if (!status.ok()) return Broken("after Finalize, ", status.message());
    world.owner(rank) = nullptr;
    return absl::OkStatus();
  });
}

absl::Status AnyCollective(World& world, int rank, std::vector<float>& values,
                           const OperationOptions& options) {
  Communicator& comm = world.comm(rank);
  const Buffer all = Buffer::Of(absl::MakeSpan(values));
  if (world.Has(Capability::kAllReduce)) {
    return comm.AllReduce(all, all, ReduceOp::kSum, options);
  }
  if (world.Has(Capability::kAllGather)) {
    const int64_t slice = all.count / world.size();
    return comm.AllGather(all.Slice(rank * slice, slice), all.Slice(0, slice * world.size()),
                          options);
  }
  return comm.Barrier(options);
}

bool CanBlock(const World& world) {
  return world.size() > 1 && (world.Has(Capability::kAllReduce) ||
                              world.Has(Capability::kAllGather) || world.Has(Capability::kBarrier));
}

absl::Status RunCheck(const ConformanceTarget& target, absl::Status (*body)(World& world)) {
  const SigpipeCounter counter;
  const ProcessHoldings before = ProcessHoldings::Now();
  std::shared_ptr<World> world = World::Make(target);
  absl::Status status = body(*world);
  const absl::Duration bound = world->bound();
  world = nullptr;
  if (!status.ok()) return status;
  status = ExpectNoMoreThan(before, bound);
  return status.ok() ? counter.Expect() : status;
}

}  // namespace muster::testing::conformance

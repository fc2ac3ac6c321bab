// The checks of how a communicator comes to be, and of what is left when it does not.
#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/device.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/backend_conformance_world.h"
#include "muster/testing/names_rank.h"

namespace muster::testing::conformance {
namespace {

// Raw gloo failed in 2 to 4 of 160 such cycles.
constexpr int kCycles = 60;

absl::Status KnowsItsOptions(World& world) {
  absl::Status status = world.backend().Check(Device::Cpu(), world.target().options);
  if (!status.ok()) return Broken("Check: ", status.ToString());
  std::map<std::string, std::string> options = world.target().options;
  options["no_such_option"] = "1";
  status = world.backend().Check(Device::Cpu(), options);
  if (!absl::IsInvalidArgument(status) || !absl::StrContains(status.message(), "no_such_option")) {
    return Broken("Check of an option \"no_such_option\" gave ", status.ToString(),
                  ", not an InvalidArgument that names it");
  }
  std::unique_ptr<ConnectStore> store;
  ConnectContext context = world.Context(0, store);
  context.options = options;
  status = world.backend().Connect(context).status();
  if (!absl::IsInvalidArgument(status)) {
    return Broken("Connect with an option \"no_such_option\" gave ", status.ToString());
  }
  return absl::OkStatus();
}

absl::Status CreateAndFinalize(World& world) {
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    absl::Status status = world.Connect();
    if (status.ok()) status = world.Finalize();
    if (!status.ok()) return Broken("in cycle ", cycle, ": ", status.message());
  }
  return absl::OkStatus();
}

absl::Status CreateAndDestroy(World& world) {
  for (int cycle = 0; cycle < kCycles / 2; ++cycle) {
    absl::Status status = world.Connect();
    if (!status.ok()) return Broken("in cycle ", cycle, ": ", status.message());
    // Without Finalize and without Abort: the destructor aborts.
    status = world.Each([](World& w, int rank) {
      w.owner(rank) = nullptr;
      return absl::OkStatus();
    });
    if (!status.ok()) return Broken("in a destructor of cycle ", cycle, ": ", status.message());
  }
  return absl::OkStatus();
}

// No rank waits for the others: one may be gone while another has just connected to it.
absl::Status EachGoesAsSoonAsItConnected(World& world) {
  for (int cycle = 0; cycle < kCycles / 2; ++cycle) {
    world.Reset();
    const bool finalize = cycle % 2 == 0;
    absl::Status status = world.Each([finalize](World& w, int rank) {
      absl::Status result = w.ConnectRank(rank);
      if (!result.ok()) return Broken("Connect: ", result.ToString());
      if (finalize) result = w.comm(rank).Finalize(w.Later());
      if (!result.ok()) return Broken("Finalize: ", result.ToString());
      w.owner(rank) = nullptr;
      return absl::OkStatus();
    });
    if (!status.ok()) return Broken("in cycle ", cycle, ": ", status.message());
  }
  return absl::OkStatus();
}

std::set<int> OpenDescriptors() {
  std::set<int> result;
  DIR* const dir = opendir("/proc/self/fd");
  if (dir == nullptr) return result;
  while (const dirent* entry = readdir(dir)) {
    int fd = -1;
    if (absl::SimpleAtoi(entry->d_name, &fd) && fd != dirfd(dir)) result.insert(fd);
  }
  closedir(dir);
  return result;
}

absl::Status HeldCountsEverything(World& world) {
  const ProcessHoldings before = ProcessHoldings::Now();
  const std::set<int> descriptors_before = OpenDescriptors();
  absl::Status status = world.Connect();
  if (!status.ok()) return status;
  // The threads that connected are counted out first.
  Holdings held;
  for (int rank = 0; rank < world.size(); ++rank) {
    const Holdings of_rank = world.comm(rank).Held();
    held.file_descriptors += of_rank.file_descriptors;
    held.threads += of_rank.threads;
    held.memory_segments += of_rank.memory_segments;
  }
  ProcessHoldings allowed = before;
  allowed.fds += held.file_descriptors;
  allowed.threads += held.threads;
  allowed.segments += held.memory_segments;
  status = ExpectNoMoreThan(allowed, world.bound());
  if (!status.ok()) {
    return Broken("Held() of all ranks adds up to ", held.ToString(), ", but ", status.message());
  }
  for (int fd : OpenDescriptors()) {
    if (descriptors_before.count(fd) == 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) {
      return Broken("file descriptor ", fd, " is not close-on-exec");
    }
  }
  return world.Finalize();
}

// Two generations connect at once, as two groups of one process do.
absl::Status SeveralConnectAtOnce(World& world) {
  std::shared_ptr<World> other = World::Make(world.target());
  Call first = world.Start([](World& w) { return w.Connect(); });
  Call second = other->Start([](World& w) { return w.Connect(); });
  for (Call* call : {&first, &second}) {
    const std::optional<absl::Status> result = call->Result(8 * world.bound());
    if (!result.has_value()) return Broken("two Connects at once did not return");
    if (!result->ok()) return *result;
  }
  absl::Status status = world.Finalize();
  status.Update(other->Finalize());
  return status;
}

// Ranks 0 to `missing` - 1 connect, and are given `timeout`. OK when each says who is missing.
// `in_time`: whether all of them were seen to wait before the deadline. Where that is false, and
// the deadline is all that anybody complains of, one may have come too late on a busy machine, and
// be as missing as the one that never comes.
absl::Status ConnectWithout(World& world, int missing, absl::Duration timeout, bool& in_time) {
  world.Reset();
  const absl::Time deadline = MonotonicNow() + timeout;
  std::vector<Call> calls;
  for (int rank = 0; rank < missing; ++rank) {
    calls.push_back(world.Start([rank, deadline](World& w) {
      std::unique_ptr<ConnectStore> store;
      ConnectContext context = w.Context(rank, store);
      context.deadline = deadline;
      return w.backend().Connect(context).status();
    }));
  }
  in_time = world.hub().AwaitWaiting(missing, deadline);
  absl::Status first;
  for (int rank = 0; rank < missing; ++rank) {
    const auto result = calls[static_cast<size_t>(rank)].Result(timeout + world.bound());
    if (!result.has_value()) {
      in_time = true;
      return Broken("Connect of rank ", rank, " did not return after its deadline");
    }
    if (!absl::IsDeadlineExceeded(*result)) in_time = true;
    if (!absl::IsDeadlineExceeded(*result) || !NamesRank(result->message(), missing)) {
      first.Update(Broken("Connect of rank ", rank, " gave ", result->ToString(),
                          ", not a DeadlineExceeded that names rank ", missing,
                          ", which did not come"));
    }
  }
  return first;
}

absl::Status MissingRankIsNamed(World& world) {
  if (absl::Status skip = world.NeedRanks(2); !skip.ok()) return skip;
  absl::Duration timeout = absl::Milliseconds(300) * TimeoutScale();
  while (true) {
    bool in_time = false;
    absl::Status status = ConnectWithout(world, world.size() - 1, timeout, in_time);
    // A backend that waits elsewhere than at the store is never seen to wait: it has the longest
    // time at last.
    if (status.ok() || in_time || timeout >= world.bound()) return status;
    timeout = std::min(2 * timeout, world.bound());
  }
}

absl::Status CancellationEndsConnect(World& world) {
  const absl::Status cause = absl::AbortedError("rank 7 was lost");
  // Before it began.
  world.cancellation(0).Cancel(cause);
  Call early = world.Start([](World& w) {
    std::unique_ptr<ConnectStore> store;
    const ConnectContext context = w.Context(0, store);
    return w.backend().Connect(context).status();
  });
  std::optional<absl::Status> result = early.Result(world.bound());
  if (!result.has_value()) return Broken("a cancelled Connect did not return");
  if (*result != cause) return Broken("a cancelled Connect gave ", result->ToString());
  if (world.size() == 1) return absl::OkStatus();

  // While it waits for a rank that does not come.
  world.Reset();
  Call waiting = world.Start([](World& w) {
    std::unique_ptr<ConnectStore> store;
    const ConnectContext context = w.Context(0, store);
    return w.backend().Connect(context).status();
  });
  if (!world.hub().AwaitWaiting(1, world.Later())) return Broken("Connect never asks the store");
  world.cancellation(0).Cancel(cause);
  result = waiting.Result(world.bound());
  if (!result.has_value()) return Broken("Connect did not return when it was cancelled");
  if (*result != cause) {
    return Broken("a Connect cancelled while it waits gave ", result->ToString());
  }
  return absl::OkStatus();
}

// At any moment: what comes back is a communicator or the cause, and nothing is left. A sweep over
// moments, which synchronises nothing: which ones come in the middle of Connect is up to
// the backend's speed. The moments that have a name are CancellationEndsConnect's.
absl::Status CancellationAtAnyMoment(World& world) {
  const absl::Status cause = absl::AbortedError("rank 7 was lost");
  for (int attempt = 0; attempt < 30; ++attempt) {
    world.Reset();
    Call all = world.Start([cause](World& w) {
      return w.Each([cause](World& each, int rank) {
        absl::Status status = each.ConnectRank(rank);
        // Another rank may have been cancelled a moment before.
        if (status.ok() || status == cause || absl::IsUnavailable(status)) return absl::OkStatus();
        return Broken("a cancelled Connect gave ", status.ToString());
      });
    });
    if (attempt % 3 == 0) {
      world.hub().AwaitWaiting(world.size() - 1, MonotonicNow() + absl::Milliseconds(100));
    } else {
      // 0.1 to 2.9 ms into it.
      absl::SleepFor(absl::Microseconds(100) * attempt);
    }
    for (int rank = 0; rank < world.size(); ++rank) world.cancellation(rank).Cancel(cause);
    const std::optional<absl::Status> result = all.Result(2 * world.bound());
    if (!result.has_value()) return Broken("a cancelled Connect did not return");
    if (!result->ok()) return *result;
  }
  return absl::OkStatus();
}

// The store of a rank that fails as soon as it has told the others where it is.
class FailingStore : public ConnectStore {
 public:
  explicit FailingStore(std::unique_ptr<ConnectStore> store) : store_(std::move(store)) {}
  absl::Status Set(absl::string_view key, absl::string_view value) override {
    return store_->Set(key, value);
  }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    absl::Status status = store_->Get(key, deadline).status();
    return status.ok() ? absl::UnavailableError("the store was lost") : status;
  }
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key, absl::string_view value,
                                                    absl::Time deadline) override {
    absl::Status status = store_->Exchange(key, value, deadline).status();
    return status.ok() ? absl::UnavailableError("the store was lost") : status;
  }

 private:
  const std::unique_ptr<ConnectStore> store_;
};

// The last rank fails midway, the others wait for it until somebody cancels them.
absl::Status CancellationEndsTheWaitForAPeer(World& world) {
  if (absl::Status skip = world.NeedRanks(2); !skip.ok()) return skip;
  const absl::Status cause = absl::AbortedError("rank 7 was lost");
  const int last = world.size() - 1;
  std::vector<Call> calls;
  for (int rank = 0; rank < world.size(); ++rank) {
    calls.push_back(world.Start([rank, last](World& w) {
      std::unique_ptr<ConnectStore> store;
      ConnectContext context = w.Context(rank, store);
      FailingStore failing(w.hub().ForRank(rank, &w.cancellation(rank)));
      if (rank == last) context.store = &failing;
      return w.backend().Connect(context).status();
    }));
  }
  std::optional<absl::Status> result = calls.back().Result(world.bound());
  if (!result.has_value()) return Broken("Connect did not return when its store failed");
  if (result->ok()) return Broken("Connect succeeded with a store that failed");
  for (int rank = 0; rank < last; ++rank) {
    calls[static_cast<size_t>(rank)].LetItBlock(world.bound());
  }
  for (int rank = 0; rank < last; ++rank) world.cancellation(rank).Cancel(cause);
  for (int rank = 0; rank < last; ++rank) {
    result = calls[static_cast<size_t>(rank)].Result(world.bound());
    if (!result.has_value()) {
      return Broken("Connect of rank ", rank,
                    " did not return when it was cancelled while it waits for a peer");
    }
    // It may have noticed by itself before.
    if (*result != cause && !absl::IsUnavailable(*result)) {
      return Broken("Connect of rank ", rank, ", cancelled while it waits for a peer, gave ",
                    result->ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status RefusesAnotherDevice(World& world) {
  const absl::Status status = world.backend().Check(Device::Cuda(4095), world.target().options);
  return status.ok() ? Broken("Check says that it could connect on cuda:4095") : absl::OkStatus();
}

}  // namespace

absl::Span<const ConformanceCheck> ConnectChecks() {
  static constexpr ConformanceCheck kChecks[] = {
      {"KnowsItsOptions", [](const ConformanceTarget& t) { return RunCheck(t, KnowsItsOptions); }},
      {"RefusesADeviceThatIsNotThere",
       [](const ConformanceTarget& t) { return RunCheck(t, RefusesAnotherDevice); }},
      {"CreateAndFinalizeWithNothingBetween",
       [](const ConformanceTarget& t) { return RunCheck(t, CreateAndFinalize); }},
      {"CreateAndDestroyWithNothingBetween",
       [](const ConformanceTarget& t) { return RunCheck(t, CreateAndDestroy); }},
      {"EachRankMayGoAsSoonAsItConnected",
       [](const ConformanceTarget& t) { return RunCheck(t, EachGoesAsSoonAsItConnected); }},
      {"HeldCountsEverythingAndNothingSurvivesExec",
       [](const ConformanceTarget& t) { return RunCheck(t, HeldCountsEverything); }},
      {"SeveralConnectAtOnce",
       [](const ConformanceTarget& t) { return RunCheck(t, SeveralConnectAtOnce); }},
      {"AMissingRankIsNamedAtTheDeadline",
       [](const ConformanceTarget& t) { return RunCheck(t, MissingRankIsNamed); }},
      {"CancellationEndsConnectWithItsCause",
       [](const ConformanceTarget& t) { return RunCheck(t, CancellationEndsConnect); }},
      {"CancellationEndsTheWaitForAPeer",
       [](const ConformanceTarget& t) { return RunCheck(t, CancellationEndsTheWaitForAPeer); }},
      {"CancellationAtAnyMomentLeavesNothing",
       [](const ConformanceTarget& t) { return RunCheck(t, CancellationAtAnyMoment); }},
  };
  return kChecks;
}

}  // namespace muster::testing::conformance

// What the checks of backend_conformance.h are written with: ranks on threads that a broken backend
// cannot take the test down with, and counts of what the process holds.
#ifndef MUSTER_TESTING_BACKEND_CONFORMANCE_WORLD_H_
#define MUSTER_TESTING_BACKEND_CONFORMANCE_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/cancellation.h"
#include "muster/core/platform/observed_thread.h"
#include "muster/testing/backend_conformance.h"
#include "muster/testing/memory_connect_store.h"

namespace muster::testing::conformance {

// A promise that is not kept.
template <class... Parts>
absl::Status Broken(const Parts&... parts) {
  return absl::FailedPreconditionError(absl::StrCat(parts...));
}

// How a status says that nothing was checked (ChecksNothing); no backend has such a payload.
inline constexpr char kNothingToCheck[] = "muster/conformance/nothing_to_check";

absl::Status NothingToCheck(absl::string_view why);

// A function on a thread of its own. One that does not return is left to itself: so it holds what
// it uses by shared_ptr or by value, never by reference to a stack.
class [[nodiscard]] Call {
 public:
  explicit Call(std::function<absl::Status()> body);
  Call(Call&&) = default;
  ~Call();

  // Waits until the function has come to where it blocks, or has returned, or `limit` is over. A
  // check holds either way.
  void LetItBlock(absl::Duration limit) const;

  // What the function returned, or nothing when it has not after `limit`.
  std::optional<absl::Status> Result(absl::Duration limit);

 private:
  struct State {
    absl::Mutex mutex;
    std::optional<absl::Status> result ABSL_GUARDED_BY(mutex);
  };
  std::shared_ptr<State> state_;
  ObservedThread thread_;
};

// OK once the process holds no more than `before`; the kernel takes a moment to count out a thread
// that was joined.
absl::Status ExpectNoMoreThan(const ProcessHoldings& before, absl::Duration bound);

// The ranks of one group at a time.
class World : public std::enable_shared_from_this<World> {
 public:
  static std::shared_ptr<World> Make(const ConformanceTarget& target);

  Backend& backend() { return *target_.backend; }
  const ConformanceTarget& target() const { return target_; }
  int size() const { return target_.ranks; }
  bool Has(Capability capability) const { return target_.backend->capabilities().Has(capability); }
  // OK, or that there is nothing to check: the first lines of a check.
  absl::Status Need(Capability capability) const;
  absl::Status NeedRanks(int ranks) const;
  // An operation that waits for another rank.
  absl::Status NeedBlocking() const;
  // See ConformanceTarget; scaled.
  absl::Duration bound() const { return bound_; }
  // Far enough for an operation that succeeds, and a way out for one that does not.
  absl::Time Later() const;
  OperationOptions Options() const;

  // A new generation: forgets the communicators, the store and the cancellations.
  void Reset();
  // What `rank` connects with; `store` keeps the store alive.
  ConnectContext Context(int rank, std::unique_ptr<ConnectStore>& store);
  MemoryConnectHub& hub() { return *hub_; }
  Cancellation& cancellation(int rank) { return *cancellations_[static_cast<size_t>(rank)]; }

  // A new generation with all ranks connected.
  absl::Status Connect();
  // One rank, on the caller's thread.
  absl::Status ConnectRank(int rank);
  Communicator& comm(int rank) { return *comms_[static_cast<size_t>(rank)]; }
  std::unique_ptr<Communicator>& owner(int rank) { return comms_[static_cast<size_t>(rank)]; }

  // Runs `body(rank)` on all ranks at once. The error that came first, with its rank, or who did
  // not return.
  absl::Status Each(std::function<absl::Status(World&, int rank)> body);
  Call Start(std::function<absl::Status(World&)> body);

  // All ranks at once; then each must hold nothing.
  absl::Status Finalize();
  absl::Status ExpectNothingHeld(int rank) const;

 private:
  explicit World(const ConformanceTarget& target);

  const ConformanceTarget target_;
  const absl::Duration bound_;
  std::unique_ptr<MemoryConnectHub> hub_;
  std::vector<std::unique_ptr<Cancellation>> cancellations_;
  std::vector<std::unique_ptr<Communicator>> comms_;
};

// The operation that a check uses where any will do: the first of the list that the backend has. It
// needs all ranks. `values` is what it reads and writes.
absl::Status AnyCollective(World& world, int rank, std::vector<float>& values,
                           const OperationOptions& options);
// Whether there is one, with a peer to wait for.
bool CanBlock(const World& world);

// One check: a new world, nothing left afterwards, no SIGPIPE meanwhile.
absl::Status RunCheck(const ConformanceTarget& target, absl::Status (*body)(World& world));

absl::Span<const ConformanceCheck> CollectiveChecks();  // backend_conformance_collectives.cc
absl::Span<const ConformanceCheck> PeerChecks();        // backend_conformance_peers.cc
absl::Span<const ConformanceCheck> LifecycleChecks();   // backend_conformance_lifecycle.cc
absl::Span<const ConformanceCheck> ConnectChecks();     // backend_conformance_connect.cc

}  // namespace muster::testing::conformance

#endif  // MUSTER_TESTING_BACKEND_CONFORMANCE_WORLD_H_

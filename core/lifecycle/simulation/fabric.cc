#include "muster/core/lifecycle/simulation/fabric.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "muster/core/lifecycle/simulation/world.h"

namespace muster::simulation {
namespace {

absl::Status LostContact(int rank) {
  return absl::UnavailableError(absl::StrCat("lost contact with rank ", rank));
}

}  // namespace

absl::Duration Fabric::Delay() { return UpTo(world_->scenario.max_delay); }

absl::Duration Fabric::UpTo(absl::Duration most) {
  return world_->chooser->Between(absl::ZeroDuration(), most);
}

void Fabric::After(int rank, absl::Duration delay, Done done, absl::Status status) {
  world_->schedule->Add({Lane::Kind::kBackend, rank}, delay,
                        [done = std::move(done), status = std::move(status)] { done(status); });
}

bool Fabric::HasGone(const Communicator& communicator, int* rank) const {
  for (*rank = 0; *rank < static_cast<int>(communicator.gone.size()); ++*rank) {
    if (communicator.gone[static_cast<size_t>(*rank)]) return true;
  }
  return false;
}

void Fabric::Connect(const std::string& group, int rank, int size, absl::Duration timeout,
                     Done done) {
  world_->schedule->Touch(kBackendPart);
  Communicator& communicator = communicators_[group];
  communicator.size = size;
  communicator.gone.resize(static_cast<size_t>(size));
  if (world_->Strikes(Fault::kConnectSilent, 10, rank)) return;
  if (world_->Strikes(Fault::kConnectTimesOut, 20, rank)) {
    world_->executor->PostAt(world_->executor->Now() + timeout, [done = std::move(done)] {
      done(absl::DeadlineExceededError("no answer from rank 0"));
    });
    return;
  }
  if (world_->Strikes(Fault::kConnectFails, 20, rank)) {
    return After(rank, Delay(), std::move(done), absl::InternalError("no device"));
  }
  int gone = 0;
  if (HasGone(communicator, &gone)) return After(rank, Delay(), std::move(done), LostContact(gone));
  communicator.connecting[rank] = std::move(done);
  if (static_cast<int>(communicator.connecting.size()) < size) {
    world_->executor->PostAt(world_->executor->Now() + timeout, [this, group, rank] {
      auto waiting = communicators_[group].connecting.extract(rank);
      if (waiting.empty()) return;
      waiting.mapped()(absl::DeadlineExceededError("not all ranks came"));
    });
    return;
  }
  for (auto& [other, other_done] : std::exchange(communicator.connecting, {})) {
    const absl::Duration slow = world_->Strikes(Fault::kConnectSlow, 30, other)
                                    ? UpTo(world_->scenario.setup_timeout)
                                    : absl::ZeroDuration();
    After(other, Delay() + slow, std::move(other_done), absl::OkStatus());
  }
}

void Fabric::Work(const std::string& group, int rank, int64_t number, Done done) {
  world_->schedule->Touch(kBackendPart);
  Communicator& communicator = communicators_[group];
  if (world_->Strikes(Fault::kWorkSilent, 5, rank)) return;
  if (world_->Strikes(Fault::kWorkFails, 8, rank)) {
    return After(rank, Delay(), std::move(done), absl::InternalError("the device is out of order"));
  }
  if (world_->Strikes(Fault::kTransportBreaks, 8, rank)) {
    return After(rank, Delay(), std::move(done), LostContact((rank + 1) % communicator.size));
  }
  int gone = 0;
  if (HasGone(communicator, &gone)) return After(rank, Delay(), std::move(done), LostContact(gone));
  auto& waiting = communicator.work[number];
  waiting[rank] = std::move(done);
  if (static_cast<int>(waiting.size()) < communicator.size) return;
  for (auto& [other, other_done] : std::exchange(waiting, {})) {
    After(other, Delay(), std::move(other_done), absl::OkStatus());
  }
  communicator.work.erase(number);
}

void Fabric::Finalize(const std::string&, int rank, Done done) {
  if (world_->Strikes(Fault::kFinalizeSilent, 15, rank)) return;
  if (world_->Strikes(Fault::kFinalizeFails, 15, rank)) {
    return After(rank, Delay(), std::move(done), absl::InternalError("its socket was reset"));
  }
  const absl::Duration slow = world_->Strikes(Fault::kFinalizeSlow, 30, rank)
                                  ? UpTo(2 * world_->scenario.close_timeout)
                                  : absl::ZeroDuration();
  After(rank, Delay() + slow, std::move(done), absl::OkStatus());
}

void Fabric::FailWaiting(Communicator& communicator, int gone) {
  for (auto& [rank, done] : std::exchange(communicator.connecting, {})) {
    if (rank != gone) After(rank, Delay(), std::move(done), LostContact(gone));
  }
  for (auto& [number, waiting] : std::exchange(communicator.work, {})) {
    for (auto& [rank, done] : waiting) {
      if (rank != gone) After(rank, Delay(), std::move(done), LostContact(gone));
    }
  }
}

void Fabric::Abort(const std::string& group, int rank, std::function<void()> released) {
  world_->schedule->Touch(kBackendPart);
  if (const auto found = communicators_.find(group); found != communicators_.end()) {
    found->second.gone[static_cast<size_t>(rank)] = true;
    FailWaiting(found->second, rank);
  }
  if (world_->Strikes(Fault::kAbortSilent, 15, rank)) return;
  const absl::Duration slow = world_->Strikes(Fault::kAbortSlow, 50, rank)
                                  ? UpTo(2 * world_->scenario.close_timeout)
                                  : absl::ZeroDuration();
  After(
      rank, Delay() + slow, [released = std::move(released)](const absl::Status&) { released(); },
      absl::OkStatus());
}

void Fabric::Vanish(const std::string& group, int rank) {
  world_->schedule->Touch(kBackendPart);
  const auto found = communicators_.find(group);
  if (found == communicators_.end()) return;
  found->second.gone[static_cast<size_t>(rank)] = true;
  // Else a host without power: only time tells.
  if (world_->chooser->Chance(70)) FailWaiting(found->second, rank);
}

}  // namespace muster::simulation

#include "muster/core/lifecycle/simulation/fabric.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::simulation {
namespace {

absl::Status LostContact(int rank) {
  return absl::UnavailableError(absl::StrCat("lost contact with rank ", rank));
}

}  // namespace

bool Fabric::Trouble(int per_mille) {
  return !calm_ && random_->PerMille(per_mille * scenario_.trouble / 100);
}

void Fabric::After(absl::Duration delay, Done done, absl::Status status) {
  executor_->PostAt(executor_->Now() + delay,
                    [done = std::move(done), status = std::move(status)] { done(status); });
}

Fabric::Communicator& Fabric::At(const std::string& group, int size) {
  Communicator& communicator = communicators_[group];
  if (size > 0) {
    communicator.size = size;
    communicator.gone.resize(size);
  }
  return communicator;
}

bool Fabric::HasGone(const Communicator& communicator, int* rank) const {
  for (*rank = 0; *rank < static_cast<int>(communicator.gone.size()); ++*rank) {
    if (communicator.gone[*rank]) return true;
  }
  return false;
}

void Fabric::Connect(const std::string& group, int rank, int size, absl::Time deadline, Done done) {
  Communicator& communicator = At(group, size);
  if (Trouble(10)) return;  // never answers, whatever the deadline
  if (Trouble(20)) {
    return After(deadline - executor_->Now(), std::move(done),
                 absl::DeadlineExceededError("no answer from rank 0"));
  }
  if (Trouble(20)) return After(Delay(), std::move(done), absl::InternalError("no device"));
  int gone = 0;
  if (HasGone(communicator, &gone)) return After(Delay(), std::move(done), LostContact(gone));
  communicator.connecting[rank] = std::move(done);
  if (static_cast<int>(communicator.connecting.size()) < size) {
    executor_->PostAt(deadline, [this, group, rank] {
      Communicator& late = At(group);
      if (auto waiting = late.connecting.extract(rank); !waiting.empty()) {
        waiting.mapped()(absl::DeadlineExceededError("not all ranks came"));
      }
    });
    return;
  }
  for (auto& [other, other_done] : std::exchange(communicator.connecting, {})) {
    const absl::Duration slow =
        Trouble(30) ? random_->Between(absl::ZeroDuration(), scenario_.setup_timeout)
                    : absl::ZeroDuration();
    After(Delay() + slow, std::move(other_done), absl::OkStatus());
  }
}

void Fabric::Work(const std::string& group, int rank, int64_t number, Done done) {
  Communicator& communicator = At(group);
  int gone = 0;
  if (HasGone(communicator, &gone)) return After(Delay(), std::move(done), LostContact(gone));
  auto& waiting = communicator.work[number];
  waiting[rank] = std::move(done);
  if (static_cast<int>(waiting.size()) < communicator.size) return;
  for (auto& [other, other_done] : waiting) After(Delay(), std::move(other_done), absl::OkStatus());
  communicator.work.erase(number);
}

void Fabric::Finalize(const std::string&, int, Done done) {
  if (Trouble(15)) return;
  if (Trouble(15)) {
    return After(Delay(), std::move(done), absl::InternalError("its socket was reset"));
  }
  const absl::Duration slow =
      Trouble(30) ? random_->Between(absl::ZeroDuration(), 2 * scenario_.close_timeout)
                  : absl::ZeroDuration();
  After(Delay() + slow, std::move(done), absl::OkStatus());
}

void Fabric::FailWaiting(Communicator& communicator, int gone) {
  for (auto& [rank, done] : std::exchange(communicator.connecting, {})) {
    if (rank != gone) After(Delay(), std::move(done), LostContact(gone));
  }
  for (auto& [number, waiting] : std::exchange(communicator.work, {})) {
    for (auto& [rank, done] : waiting) {
      if (rank != gone) After(Delay(), std::move(done), LostContact(gone));
    }
  }
}

void Fabric::Abort(const std::string& group, int rank, std::function<void()> released) {
  if (const auto found = communicators_.find(group); found != communicators_.end()) {
    found->second.gone[rank] = true;
    FailWaiting(found->second, rank);
  }
  if (Trouble(15)) return;  // hangs
  const absl::Duration slow =
      Trouble(50) ? random_->Between(absl::ZeroDuration(), 2 * scenario_.close_timeout)
                  : absl::ZeroDuration();
  executor_->PostAt(executor_->Now() + Delay() + slow, std::move(released));
}

void Fabric::Vanish(const std::string& group, int rank) {
  const auto found = communicators_.find(group);
  if (found == communicators_.end()) return;
  found->second.gone[rank] = true;
  // Else a host without power: only time tells.
  if (random_->Chance(70)) FailWaiting(found->second, rank);
}

}  // namespace muster::simulation

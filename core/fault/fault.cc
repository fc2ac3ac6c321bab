#include "muster/core/fault/fault.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/no_destructor.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace muster {
namespace fault_internal {

std::atomic<int> armed{0};

namespace {

struct ArmedFault {
  uint64_t id = 0;
  FaultSpec spec;
  std::map<int, int64_t> visits;  // by rank: several may be threads of one process
  int64_t happened = 0;
};

class Armory {
 public:
  // Never destroyed: points may be hit by exit hooks.
  static Armory& Get() {
    static absl::NoDestructor<Armory> armory;
    return *armory;
  }

  uint64_t Add(FaultSpec spec) {
    absl::MutexLock lock(&mutex_);
    ArmedFault fault;
    fault.id = next_id_++;
    fault.spec = std::move(spec);
    faults_.push_back(std::move(fault));
    armed.store(static_cast<int>(faults_.size()), std::memory_order_relaxed);
    return faults_.back().id;
  }

  void Remove(uint64_t id) {
    absl::MutexLock lock(&mutex_);
    faults_.erase(std::remove_if(faults_.begin(), faults_.end(),
                                 [id](const ArmedFault& f) { return f.id == id; }),
                  faults_.end());
    armed.store(static_cast<int>(faults_.size()), std::memory_order_relaxed);
  }

  int64_t Happened(uint64_t id) const {
    absl::MutexLock lock(&mutex_);
    for (const ArmedFault& fault : faults_) {
      if (fault.id == id) return fault.happened;
    }
    return 0;
  }

  // Counts the visit; gives what happens at it.
  std::vector<FaultSpec> Visit(FaultPoint point, int rank) {
    absl::MutexLock lock(&mutex_);
    std::vector<FaultSpec> due;
    for (ArmedFault& fault : faults_) {
      if (fault.spec.point != point) continue;
      const int64_t visit = ++fault.visits[rank];
      if (!fault.spec.AppliesTo(rank, visit)) continue;
      ++fault.happened;
      due.push_back(fault.spec);
      if (fault.spec.action == FaultAction::kFail) break;
    }
    return due;
  }

  absl::Status ArmOnce(absl::string_view text) {
    absl::StatusOr<std::vector<FaultSpec>> specs = ParseFaults(text);
    if (!specs.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("MUSTER_FAULTS: ", specs.status().message()));
    }
    {
      absl::MutexLock lock(&mutex_);
      if (environment_.has_value()) {
        if (*environment_ == text) return absl::OkStatus();
        return absl::FailedPreconditionError(
            absl::StrCat("MUSTER_FAULTS is \"", text, "\", but this process is armed with \"",
                         *environment_, "\": a process takes it once"));
      }
      environment_ = std::string(text);
    }
    for (FaultSpec& spec : *specs) Add(std::move(spec));
    return absl::OkStatus();
  }

 private:
  mutable absl::Mutex mutex_;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<ArmedFault> faults_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> environment_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Happen(const FaultSpec& spec) {
  switch (spec.action) {
    case FaultAction::kFail:
      return absl::AbortedError(spec.message.empty()
                                    ? absl::StrCat("injected fault at ", Name(spec.point))
                                    : spec.message);
    case FaultAction::kCrash:
      raise(SIGKILL);
      break;
    case FaultAction::kExit:
      std::exit(spec.exit_code);
    case FaultAction::kStop:
      raise(SIGSTOP);
      break;
    case FaultAction::kDelay:
      absl::SleepFor(spec.duration);
      break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Hit(FaultPoint point, int rank) {
  for (const FaultSpec& spec : Armory::Get().Visit(point, rank)) {
    absl::Status status = Happen(spec);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace fault_internal

using fault_internal::Armory;

absl::StatusOr<ScopedFaults> ScopedFaults::Arm(absl::string_view text) {
  absl::StatusOr<std::vector<FaultSpec>> specs = ParseFaults(text);
  if (!specs.ok()) return specs.status();
  return Arm(*std::move(specs));
}

ScopedFaults ScopedFaults::Arm(std::vector<FaultSpec> specs) {
  ScopedFaults faults;
  for (FaultSpec& spec : specs) faults.ids_.push_back(Armory::Get().Add(std::move(spec)));
  return faults;
}

ScopedFaults& ScopedFaults::operator=(ScopedFaults&& other) noexcept {
  if (this != &other) {
    Disarm();
    ids_ = std::exchange(other.ids_, {});
  }
  return *this;
}

void ScopedFaults::Disarm() {
  for (const uint64_t id : ids_) Armory::Get().Remove(id);
  ids_.clear();
}

int64_t ScopedFaults::happened() const {
  int64_t total = 0;
  for (const uint64_t id : ids_) total += Armory::Get().Happened(id);
  return total;
}

absl::Status ArmFaultsFromEnvironment(const Environment& environment) {
  const std::optional<std::string> text = environment.Get("MUSTER_FAULTS");
  if (!text.has_value()) return absl::OkStatus();
  return Armory::Get().ArmOnce(*text);
}

}  // namespace muster

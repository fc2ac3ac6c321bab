#include "muster/core/lifecycle/simulation/schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::simulation {

std::string Describe(const Lane& lane) {
  switch (lane.kind) {
    case Lane::Kind::kToStore:
      return absl::StrCat("the store hears rank ", lane.rank);
    case Lane::Kind::kFromStore:
      return absl::StrCat("rank ", lane.rank, " hears the store");
    case Lane::Kind::kBackend:
      return absl::StrCat("the backend of rank ", lane.rank);
    case Lane::Kind::kOwner:
      return absl::StrCat("the program of rank ", lane.rank);
    case Lane::Kind::kFate:
      return absl::StrCat("the fate of rank ", lane.rank);
  }
  return "?";
}

void TimedSchedule::Add(const Lane& lane, absl::Duration delay, std::function<void()> task) {
  absl::Time when = executor_->Now() + delay;
  if (lane.ordered()) {
    absl::Time& last = last_.emplace(lane, absl::InfinitePast()).first->second;
    when = last = std::max(last, when);
  }
  executor_->PostAt(when, std::move(task));
}

void TimedSchedule::RunUntil(absl::Time limit, const std::function<bool()>& done) {
  executor_->RunUntilIdle();
  while (!done()) {
    const absl::Time next = executor_->NextTimer();
    if (next > limit) break;
    executor_->AdvanceTo(next);
  }
}

}  // namespace muster::simulation

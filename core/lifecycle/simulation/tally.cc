#include "muster/core/lifecycle/simulation/tally.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::simulation {
namespace {

struct Counter {
  const char* name;
  int64_t Tally::* count;
};
constexpr Counter kCounters[] = {
    {"schedules", &Tally::schedules},
    {"steps", &Tally::steps},
    {"groups", &Tally::lives},
    {"ready", &Tally::ready},
    {"destroyed", &Tally::destroyed},
    {"aborted", &Tally::aborted},
    {"causes shared", &Tally::causes_shared},
    {"died", &Tally::dead},
    {"residues", &Tally::residues},
    {"lost the store", &Tally::lost_store},
    {"acquires reused", &Tally::reused},
    {"acquires refused", &Tally::refused_acquires},
    {"acquires waited", &Tally::waiting_acquires},
    {"proposals refused", &Tally::refused_proposals},
    {"proposals accepted", &Tally::accepted_proposals},
    {"collectives", &Tally::collectives},
    {"meetings ended by an exit", &Tally::meetings_left},
    {"meetings ended by a loss", &Tally::meetings_lost},
    {"requests after the fence", &Tally::fenced_requests},
};

}  // namespace

void Tally::Add(const Tally& other) {
  for (const Counter& counter : kCounters) this->*counter.count += other.*counter.count;
  for (size_t i = 0; i < faults.size(); ++i) faults[i] += other.faults[i];
  for (size_t i = 0; i < closes_in.size(); ++i) {
    closes_in[i] += other.closes_in[i];
    aborts_in[i] += other.aborts_in[i];
  }
  largest = std::max(largest, other.largest);
  slowest_recovery = std::max(slowest_recovery, other.slowest_recovery);
}

std::map<std::string, int64_t> Tally::Counts() const {
  std::map<std::string, int64_t> counts;
  for (const Counter& counter : kCounters) counts[counter.name] = this->*counter.count;
  for (int i = 0; i < kFaultCount; ++i) {
    counts[absl::StrCat("fault: ", Name(static_cast<Fault>(i)))] = faults[static_cast<size_t>(i)];
  }
  for (int i = 0; i < kGroupStateCount; ++i) {
    const auto state = static_cast<GroupState>(i);
    counts[absl::StrCat("close in ", Name(state))] = closes_in[static_cast<size_t>(i)];
    counts[absl::StrCat("abort in ", Name(state))] = aborts_in[static_cast<size_t>(i)];
  }
  return counts;
}

std::string Tally::ToString() const {
  std::string text;
  for (const auto& [name, count] : Counts()) absl::StrAppend(&text, "  ", count, "  ", name, "\n");
  absl::StrAppend(&text, "  largest job: ", largest,
                  " ranks; slowest recovery: ", absl::FormatDuration(slowest_recovery), "\n");
  return text;
}

}  // namespace muster::simulation

// What a run did and what it left, over all ranks.
#ifndef MUSTER_TRAINER_EXAMPLES_REPORT_H_
#define MUSTER_TRAINER_EXAMPLES_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/rendezvous/world.h"

namespace muster {

struct Report {
  // Over all ranks: the same on every rank, but for the last, which each measures by its own clock.
  double test_accuracy = 0;
  int64_t epochs = 0;
  double samples_per_second = 0;

  // Of one rank; after MergeReports the largest of all ranks.
  int64_t groups_created = 0;  // generations that became ready
  int64_t groups_reused = 0;   // Acquires answered with a live group
  absl::Duration create;       // of the latest generation
  absl::Duration destroy;
  ProcessHoldings left;   // beyond main's baseline, once the pool was gone
  int64_t left_keys = 0;  // in the job's store, beside the one record that a name keeps

  // For people: "group train: created once, the last time in 12.3 ms; reused 2 times; destroyed in
  // 3.4 ms; left: nothing".
  std::string Summary(const std::string& group) const;

  // The file that --report names. Durations in milliseconds; `left` as an object of counts, and
  // "unknown": why they may be too low, or "".
  std::string ToJson() const;
};

// Collective: `here` with the largest counts and times of all ranks; what is left is unknown when
// it is on any rank. The pool whose end is reported is gone by now, so the ranks speak through
// another one: a second proof that nothing stood in its way.
absl::StatusOr<Report> MergeReports(const World& world, const Report& here, const GroupSpec& spec);

// How many keys of `group` are in the job's store, beside its record (docs/lifecycle.md, L8). To be
// called when no pool of this process is there. Only for a store that a launcher serves: any other
// is gone with the pools (then 0).
absl::StatusOr<int64_t> CountLeftKeys(const World& world, const std::string& group);

// Whether WriteReport has a chance, before hours of training. Changes nothing. Errors as its.
absl::Status CheckReport(const std::string& path);

// Replaces the file. Errors name it, what the system said and what to do.
absl::Status WriteReport(const std::string& path, const Report& report);

}  // namespace muster

#endif  // MUSTER_TRAINER_EXAMPLES_REPORT_H_

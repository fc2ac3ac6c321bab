// One stage of training on a group that is there: what Trainer runs between acquiring a group and
// giving it back.
#ifndef MUSTER_TRAINER_STAGE_LOOP_H_
#define MUSTER_TRAINER_STAGE_LOOP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/trainer/collectives.h"
#include "muster/trainer/progress.h"

namespace muster {

// What a loop works with. Everything outlives it.
struct StageContext {
  Collectives& collectives;
  Progress& progress;
  std::function<absl::Time()> now;
};

// Two steps, because their errors mean different things. Not thread-safe.
class StageLoop {
 public:
  virtual ~StageLoop() = default;

  // Collective: finds out whether the ranks are about to do the same. An error is known to every
  // rank, and the group stays usable, unless it is the group's own.
  virtual absl::Status Prepare() = 0;

  // After Prepare. An error is this rank's alone until the group is aborted with it, but for one
  // that all ranks found together.
  virtual absl::Status Run() = 0;
  // Whether Run's error was: then it is as one of Prepare.
  virtual bool known_to_all() const { return false; }
};

// "fit 2/5, batch 17: label 12 is not in [0, 10)", with the code of `status`. OK stays OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

}  // namespace muster

#endif  // MUSTER_TRAINER_STAGE_LOOP_H_

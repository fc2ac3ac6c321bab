// What a user adds to a stage: something to set up, something to do after each epoch, something to
// tear down.
#ifndef MUSTER_TRAINER_CALLBACK_H_
#define MUSTER_TRAINER_CALLBACK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "muster/trainer/fit_loop.h"

namespace muster {

struct StageInfo {
  std::string stage;  // "fit", "validate", "test"
  std::string group;  // "train/1"
  int rank = 0;
  int world_size = 1;
};

// Called on the thread that runs the stage. A SetUp that fails ends the stage: the group is aborted
// with the error, so that the other ranks learn it. An exception of any of them passes through the
// trainer with the same effect.
class Callback {
 public:
  virtual ~Callback() = default;

  // Before the first step, in the order of the callbacks, when the group is there.
  virtual absl::Status SetUp(const StageInfo& stage) {
    static_cast<void>(stage);
    return absl::OkStatus();
  }

  // Fit alone. An error on any rank ends the stage on every rank, with that error ("rank 0: fit
  // 3/5: ..."), and leaves the group as it is: how to stop early.
  virtual absl::Status OnEpochEnd(const StageInfo& stage, const EpochResult& result) {
    static_cast<void>(stage);
    static_cast<void>(result);
    return absl::OkStatus();
  }

  // Once for each SetUp that returned OK, in reverse order, on every way out of the stage: success,
  // an error, an exception (then `outcome` is Aborted). What SetUp itself got before it failed it
  // gives back itself. The group may be gone by now.
  virtual void TearDown(const StageInfo& stage, const absl::Status& outcome) noexcept {
    static_cast<void>(stage);
    static_cast<void>(outcome);
  }
};

}  // namespace muster

#endif  // MUSTER_TRAINER_CALLBACK_H_

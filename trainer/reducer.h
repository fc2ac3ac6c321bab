// Averages gradients over all ranks while the backward pass goes on.
//
//   Reducer reducer(collectives, module.parameters(), {});
//   module.PlaceGradients(reducer.gradients());      // optional: saves a copy
//   for each step:
//     reducer.StartStep();
//     module.TrainStep(batch,
//                      [&](int i) { reducer.Ready(i, module.parameters()[i].gradient); }, metrics);
//     status = reducer.FinishStep();   // gradients() are the averages, the same bits on every rank
#ifndef MUSTER_TRAINER_REDUCER_H_
#define MUSTER_TRAINER_REDUCER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/work.h"
#include "muster/trainer/aligned_memory.h"
#include "muster/trainer/bucket_layout.h"
#include "muster/trainer/collectives.h"
#include "muster/trainer/module.h"

namespace muster {

// Not thread-safe. Buckets are reduced in the order of the layout whatever the order of Ready, so
// that all ranks issue the same operations. After an error the group is to be aborted before the
// destructor runs: that one waits for what is in flight.
class Reducer {
 public:
  // `parameters` and `sizes` are valid. Borrows `collectives`, which outlives it.
  Reducer(Collectives& collectives, absl::Span<const Parameter> parameters,
          const BucketSizes& sizes);

  // For each parameter the place of its gradient: where a module may write it, and where the
  // average is after FinishStep.
  absl::Span<const Buffer> gradients() const { return gradients_; }
  const BucketLayout& layout() const { return layout_; }

  void StartStep();

  // Parameter `index` has `gradient`: copied unless it is in its place already. Starts each bucket
  // that is complete, once those before it were started.
  void Ready(int index, const Buffer& gradient);

  // Waits for all buckets. Errors: the group's; InvalidArgument for an index that does not exist, a
  // gradient announced twice or not at all, or of another type or size than its parameter.
  absl::Status FinishStep();

  // Waits for what is in flight and forgets it: after an error, once the group was aborted.
  void Cancel() { works_.clear(); }

  // How many buckets of this step were handed to the group.
  int started() const { return static_cast<int>(works_.size()); }

 private:
  Buffer BucketBuffer(int bucket) const;

  Collectives& collectives_;
  const BucketLayout layout_;
  std::vector<std::string> names_;  // of the parameters, for messages
  std::vector<AlignedMemory> memory_;
  std::vector<Buffer> gradients_;

  std::vector<bool> ready_;   // for each parameter
  std::vector<int> missing_;  // for each bucket
  absl::Status misuse_;       // the first of this step
  std::vector<Work> works_;   // last: its destructor waits while the memory is still there
};

}  // namespace muster

#endif  // MUSTER_TRAINER_REDUCER_H_

// The four collectives that training needs, and who takes part.
//
// The trainer's parts are written against this and not against Group, so that they run in a unit
// test over threads (in_process_collectives.h) and cannot reach for the group's life: that is
// Trainer's business alone.
#ifndef MUSTER_TRAINER_COLLECTIVES_H_
#define MUSTER_TRAINER_COLLECTIVES_H_

#include <string>

#include "absl/status/status.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/collective/work.h"

namespace muster {

// Shapes, threads and errors as group.h says.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual absl::Status AllReduce(Buffer buffer, ReduceOp op) = 0;
  virtual absl::Status AllGather(ConstBuffer in, Buffer out) = 0;
  virtual absl::Status Broadcast(Buffer buffer, int root) = 0;
  // Queues behind the operations before it and returns at once.
  virtual Work AllReduceAsync(Buffer buffer, ReduceOp op) = 0;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_COLLECTIVES_H_

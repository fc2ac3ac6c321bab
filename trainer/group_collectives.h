// A group's collectives as the trainer's parts see them.
#ifndef MUSTER_TRAINER_GROUP_COLLECTIVES_H_
#define MUSTER_TRAINER_GROUP_COLLECTIVES_H_

#include "muster/core/group/group.h"
#include "muster/trainer/collectives.h"

namespace muster {

// Borrows `group`, which outlives it.
class GroupCollectives final : public Collectives {
 public:
  explicit GroupCollectives(Group& group) : group_(group) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  absl::Status AllReduce(Buffer buffer, ReduceOp op) override {
    return group_.AllReduce(buffer, op);
  }
  absl::Status AllGather(ConstBuffer in, Buffer out) override { return group_.AllGather(in, out); }
  absl::Status Broadcast(Buffer buffer, int root) override {
    return group_.Broadcast(buffer, root);
  }
  Work AllReduceAsync(Buffer buffer, ReduceOp op) override {
    return group_.AllReduceAsync(buffer, op);
  }

 private:
  Group& group_;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_GROUP_COLLECTIVES_H_

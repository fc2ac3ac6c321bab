// A group's collectives as the trainer's parts see them.
#ifndef MUSTER_TRAINER_GROUP_COLLECTIVES_H_
#define MUSTER_TRAINER_GROUP_COLLECTIVES_H_

#include "muster/core/group/group.h"
#include "muster/trainer/collectives.h"

namespace muster {

// Borrows `group`, which outlives it. One thread.
class GroupCollectives final : public Collectives {
 public:
  explicit GroupCollectives(Group& group) : group_(group) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  absl::Status AllReduce(Buffer buffer, ReduceOp op) override {
    return Noted(group_.AllReduce(buffer, op));
  }
  absl::Status AllGather(ConstBuffer in, Buffer out) override {
    return Noted(group_.AllGather(in, out));
  }
  absl::Status Broadcast(Buffer buffer, int root) override {
    return Noted(group_.Broadcast(buffer, root));
  }
  Work AllReduceAsync(Buffer buffer, ReduceOp op) override {
    return group_.AllReduceAsync(buffer, op);
  }

  // Whether a blocking one of them has failed on this rank. What it would have told all ranks, they
  // may not know then.
  bool failed() const { return failed_; }

 private:
  absl::Status Noted(absl::Status status) {
    failed_ = failed_ || !status.ok();
    return status;
  }

  Group& group_;
  bool failed_ = false;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_GROUP_COLLECTIVES_H_

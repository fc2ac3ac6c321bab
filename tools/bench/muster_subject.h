// Muster's own groups: Acquire and Close on a pool that lives.
#ifndef MUSTER_TOOLS_BENCH_MUSTER_SUBJECT_H_
#define MUSTER_TOOLS_BENCH_MUSTER_SUBJECT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/group_spec.h"
#include "muster/tools/bench/subject.h"

namespace muster {
namespace bench {

class MusterSubject final : public Subject {
 public:
  // "muster/<backend>". The pool outlives it.
  MusterSubject(GroupPool* pool, const std::string& backend);

  const std::string& name() const override { return name_; }
  absl::StatusOr<absl::Duration> CreateAndDestroy() override;
  absl::Status Open() override;
  absl::Status Close() override;
  absl::StatusOr<absl::Duration> AllReduce(int64_t count, int iterations) override;

 private:
  GroupPool* const pool_;
  const std::string name_;
  GroupSpec spec_;
  GroupLease lease_;
};

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_MUSTER_SUBJECT_H_

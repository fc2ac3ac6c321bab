#include "muster/tools/bench/muster_subject.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/tools/bench/subject.h"

namespace muster {
namespace bench {

MusterSubject::MusterSubject(GroupPool* pool, const std::string& backend)
    : pool_(pool), name_(absl::StrCat("muster/", backend)) {
  spec_.name = absl::StrCat("bench.", backend);
  spec_.backend = backend;
  spec_.setup_timeout = kStepTimeout;
  spec_.operation_timeout = kStepTimeout;
  spec_.close_timeout = kStepTimeout;
}

absl::StatusOr<absl::Duration> MusterSubject::CreateAndDestroy() {
  const absl::Time begin = MonotonicNow();
  absl::StatusOr<GroupLease> lease = pool_->Acquire(spec_);
  if (!lease.ok()) return lease.status();
  absl::Status status = lease->Close();
  if (!status.ok()) return status;
  return MonotonicNow() - begin;
}

absl::Status MusterSubject::Open() {
  absl::StatusOr<GroupLease> lease = pool_->Acquire(spec_);
  if (!lease.ok()) return lease.status();
  lease_ = *std::move(lease);
  return absl::OkStatus();
}

absl::Status MusterSubject::Close() { return lease_.Close(); }

absl::StatusOr<absl::Duration> MusterSubject::AllReduce(int64_t count, int iterations) {
  return TimeAllReduce(lease_->rank(), lease_->size(), count, iterations,
                       [this](absl::Span<float> values) {
                         return lease_->AllReduce(Buffer::Of(values), ReduceOp::kSum);
                       });
}

}  // namespace bench
}  // namespace muster

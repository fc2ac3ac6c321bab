// The right to use a group, and the duty to end it.
#ifndef MUSTER_CORE_GROUP_GROUP_LEASE_H_
#define MUSTER_CORE_GROUP_GROUP_LEASE_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/group/group.h"

namespace muster {

class LeaseRecord;  // the pool's side of a lease; internal

// Move-only; from GroupPool::Acquire. Abort, Close and Release may be called by any thread at any
// time; what `*lease` gives is there until Release. The group behind it is thread-safe. Ends once,
// by the first of Release, Close and the destructor.
class [[nodiscard]] GroupLease {
 public:
  GroupLease();  // empty
  explicit GroupLease(std::unique_ptr<LeaseRecord> record);
  GroupLease(GroupLease&&) noexcept;
  GroupLease& operator=(GroupLease&&) noexcept;
  // Release(). A local abort with the peers told when it runs during unwinding ("rank 1 left: an
  // exception").
  ~GroupLease();

  bool empty() const { return Record() == nullptr; }
  // An empty lease gives a group whose every operation answers FailedPrecondition.
  Group& operator*() const;
  Group* operator->() const;

  // Gives the lease back. The group stays for the next Acquire, or closes with its last lease when
  // the pool says so (then this blocks, as Close does).
  void Release();

  // Closes the group on every rank: work up to the last operation finishes, later work is refused,
  // everything is given back. Only the last holder may: FailedPrecondition naming the other holders
  // else, or that this is the control thread. Every later call of it on this rank gets the same
  // result. When it became an abort the result is the cause.
  //
  // Work has `timeout` to finish on every rank, and then the backend at least the spec's
  // close_timeout to end in good order. What takes longer becomes an abort, which ends within
  // another close_timeout + cause_window, and a second more where residue is left.
  absl::Status Close();  // with the spec's close_timeout
  absl::Status Close(absl::Duration timeout);

  // Aborts the group, here and (by news) everywhere, with `cause` (not OK). Any thread, any time.
  // Returns when this rank holds nothing any more, at most close_timeout + cause_window of the spec
  // later, and a second more where residue is left (on the control thread at once); never waits for
  // a peer.
  void Abort(const absl::Status& cause);

 private:
  void End() noexcept;
  // Shared, so that who aborts has it while another thread ends the lease.
  std::shared_ptr<LeaseRecord> Record() const;
  std::shared_ptr<LeaseRecord> TakeRecord();

  mutable absl::Mutex mutex_;
  std::shared_ptr<LeaseRecord> record_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_GROUP_LEASE_H_

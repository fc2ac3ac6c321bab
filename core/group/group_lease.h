// The right to use a group, and the duty to end it.
#ifndef MUSTER_CORE_GROUP_GROUP_LEASE_H_
#define MUSTER_CORE_GROUP_GROUP_LEASE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/group/group.h"
#include "muster/core/platform/fork_guard.h"

namespace muster {

class LeaseRecord;  // the pool's side of a lease; internal

// Move-only; from GroupPool::Acquire. Abort, Close and Release may be called by any thread at any
// time; what `*lease` gives is there until Release. The group behind it is thread-safe. Ends once,
// by the first of Release, Close and the destructor.
//
// In a forked child a lease of its parent holds nothing and locks nothing, since a thread of the
// parent may have held its lock: it is empty, Close answers FailedPrecondition, Abort, Release and
// the destructor do nothing, and every operation says that this is a forked child. It may be
// assigned to.
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
  // An empty lease, and one of the parent in a forked child, gives a group whose every operation
  // answers FailedPrecondition.
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
  //
  // FailedPrecondition, too, while groups that were split from this one live on this rank: it names
  // them. (Those of other ranks live on: nothing of theirs ends with it.)
  absl::Status Close();  // with the spec's close_timeout
  absl::Status Close(absl::Duration timeout);

  // Closes the groups that were split from it on this rank first, and those split from these,
  // whoever holds them, as Close would; then this one. Each stage has `timeout`. The first error of
  // all.
  absl::Status CloseWithChildren();  // with the spec's close_timeout
  absl::Status CloseWithChildren(absl::Duration timeout);

  // Aborts the group, here and (by news) everywhere, with `cause` (not OK). Any thread, any time.
  // Returns when this rank holds nothing any more, at most close_timeout + cause_window of the spec
  // later, and a second more where residue is left (on the control thread at once); never waits for
  // a peer.
  void Abort(const absl::Status& cause);

 private:
  // Not a member itself: in a forked child it must not even end, which takes a lock of abseil's.
  struct Slot {
    uint64_t made_in = ForkGeneration();  // written in a forked child alone
    absl::Mutex mutex;
    // Shared, so that who aborts has it while another thread ends the lease.
    std::shared_ptr<LeaseRecord> record ABSL_GUARDED_BY(mutex);
  };
  void End() noexcept;
  void Take(GroupLease& other) noexcept;
  bool forked() const { return slot_->made_in != ForkGeneration(); }
  std::shared_ptr<LeaseRecord> Record() const;  // null in a forked child
  std::shared_ptr<LeaseRecord> TakeRecord();
  // Without the lock, in a forked child: nobody writes to it there.
  std::shared_ptr<LeaseRecord>& ParentsRecord() const;
  void LeaveSlot() noexcept;
  absl::Status CloseWithin(std::optional<absl::Duration> timeout, bool with_children);

  std::unique_ptr<Slot> slot_ = std::make_unique<Slot>();
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_GROUP_LEASE_H_

// Which operations of a group may start, and what number each has.
//
// A group takes one operation at a time, in the order of calls; collectives are numbered, because
// that number is what the ranks agree on when they close. The gate knows no communicator and no
// thread: it says yes or no, counts, and tells when a close has drained.
#ifndef MUSTER_CORE_GROUP_OPERATION_GATE_H_
#define MUSTER_CORE_GROUP_OPERATION_GATE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace muster {

// Thread-safe.
class OperationGate {
 public:
  enum class Kind { kCollective, kPointToPoint };
  enum class Mode {
    kBlocking,  // runs on the caller's thread
    kQueued,    // runs on the group's own thread, after those before it
  };

  // An operation that was let in. Not OK to lose: Leave it exactly once.
  struct [[nodiscard]] Ticket {
    Kind kind = Kind::kCollective;
    Mode mode = Mode::kBlocking;  // how it runs
    uint64_t id = 0;
    int64_t number =
        0;  // of the collective; a point-to-point operation has that of the last collective
    std::string label;  // "all_reduce #41", "send"
  };

  // `why`: the answer to every operation before Open. Not OK.
  explicit OperationGate(absl::Status why) : refusal_(std::move(why)) {}

  void Open();

  // Lets an operation in. Errors: what Refuse said; FailedPrecondition when it is beyond what a
  // close still allows, or while another thread is in a blocking one, whose order with this one the
  // ranks could not agree on. A blocking operation behind queued ones must join the queue: mode
  // then comes back as kQueued; its thread is in it all the same.
  absl::StatusOr<Ticket> Enter(absl::string_view name, Kind kind, Mode mode);
  void Leave(const Ticket& ticket);

  // Lets nothing in any more; gives the number of the last collective that was. A Drain to more
  // than that, of a peer that did more, does not open it again.
  int64_t Seal(std::string closed_by);

  // From now on only collectives up to `sequence` are let in; `closed_by` ("rank 0 closed after
  // #41") answers the others. `done` runs once, with the number of the last collective: inside this
  // call or inside the Leave that drains the gate. A second Drain replaces sequence, reason and
  // `done`. False when an operation beyond `sequence` has been let in already and is not finished:
  // it will never finish by itself.
  bool Drain(int64_t sequence, std::string closed_by, absl::AnyInvocable<void(int64_t)> done);

  // For good: every later Enter gets `why`. The first refusal stays unless `replace`.
  void Refuse(absl::Status why, bool replace = false);

  // OK while an operation would be let in.
  absl::Status status() const;
  int64_t issued() const;     // the last collective that was let in
  int64_t completed() const;  // the last one that has left
  bool idle() const;          // nothing is inside
  // What is inside: "all_reduce #41", "2 operations, all_reduce #41 first"; "" when idle.
  std::string Inside() const;

 private:
  absl::Status Blocked(int64_t number, Kind kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool sealed_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t limit_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string closed_by_ ABSL_GUARDED_BY(mutex_);
  absl::AnyInvocable<void(int64_t)> drained_ ABSL_GUARDED_BY(mutex_);
  int64_t issued_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t completed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  struct Entered {
    uint64_t id;
    std::string label;
    bool blocking;  // a thread waits for it
  };
  std::deque<Entered> inside_ ABSL_GUARDED_BY(mutex_);  // in the order of Enter
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_OPERATION_GATE_H_

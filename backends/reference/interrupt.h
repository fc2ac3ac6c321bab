// Ends the waiting of another thread, for a reason.
#ifndef MUSTER_BACKENDS_REFERENCE_INTERRUPT_H_
#define MUSTER_BACKENDS_REFERENCE_INTERRUPT_H_

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "muster/backends/reference/descriptor.h"

namespace muster::reference {

// A descriptor that becomes readable, and stays so, when somebody raises the interrupt.
// Thread-safe.
class Interrupt {
 public:
  // Unavailable when the system has no descriptor left.
  absl::Status Open();
  // Gives the descriptor back; the cause stays. Nobody may be polling fd() then.
  void Close();
  bool open() const;

  // What to poll for POLLIN beside everything else.
  int fd() const;

  // The first cause stays. Never blocks.
  void Raise(const absl::Status& cause);
  // OK until raised.
  absl::Status cause() const;

 private:
  mutable absl::Mutex mutex_;
  Descriptor event_ ABSL_GUARDED_BY(mutex_);
  absl::Status cause_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::reference

#endif  // MUSTER_BACKENDS_REFERENCE_INTERRUPT_H_

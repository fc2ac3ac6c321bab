#include "muster/backends/reference/interrupt.h"

#include <sys/eventfd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "muster/backends/reference/descriptor.h"

namespace muster::reference {

absl::Status Interrupt::Open() {
  absl::MutexLock lock(&mutex_);
  event_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event_.open()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot make an eventfd: ", ErrorText(errno)));
}

void Interrupt::Close() {
  absl::MutexLock lock(&mutex_);
  event_.Close();
}

bool Interrupt::open() const {
  absl::MutexLock lock(&mutex_);
  return event_.open();
}

int Interrupt::fd() const {
  absl::MutexLock lock(&mutex_);
  return event_.fd();
}

void Interrupt::Raise(const absl::Status& cause) {
  absl::MutexLock lock(&mutex_);
  if (!cause_.ok()) return;
  cause_ = cause;
  if (event_.open()) eventfd_write(event_.fd(), 1);
}

absl::Status Interrupt::cause() const {
  absl::MutexLock lock(&mutex_);
  return cause_;
}

}  // namespace muster::reference

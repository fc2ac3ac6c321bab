// How the reference backend's communicator lives and ends: what goes around every operation, and
// the two ends.
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/backends/reference/descriptor.h"
#include "muster/backends/reference/flow.h"
#include "muster/backends/reference/interrupt.h"
#include "muster/backends/reference/reference_communicator.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/platform/describe_ranks.h"
#include "muster/core/platform/fork_guard.h"

namespace muster::reference {
namespace {

absl::Status NoMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for what an operation on ", bytes,
                   " bytes needs beside its buffers: move less at a time, or look at the limits"));
}

}  // namespace

ReferenceCommunicator::ReferenceCommunicator(int rank, std::vector<Descriptor> links,
                                             std::unique_ptr<Interrupt> interrupt)
    : rank_(rank),
      size_(static_cast<int>(links.size())),
      made_in_(ForkGeneration()),
      interrupt_(std::move(interrupt)),
      links_(std::move(links)) {}

ReferenceCommunicator::~ReferenceCommunicator() {
  Abort(absl::AbortedError("the communicator was destroyed"));
}

absl::Status ReferenceCommunicator::Enter() {
  // Before the mutex: another thread may have held it when the process forked.
  if (made_in_ != ForkGeneration()) {
    return absl::FailedPreconditionError(
        "the communicator was made before fork(): make a group of its own in the child");
  }
  absl::MutexLock lock(&mutex_);
  if (absl::Status cause = interrupt_->cause(); !cause.ok()) return cause;
  if (finalized_) return absl::FailedPreconditionError("the communicator is finalized");
  if (busy_) {
    return absl::FailedPreconditionError("another operation of this communicator is running");
  }
  if (!failure_.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("an earlier operation failed, only Abort may follow: ", failure_.message()));
  }
  busy_ = true;
  return absl::OkStatus();
}

void ReferenceCommunicator::Leave(const absl::Status& result) {
  absl::MutexLock lock(&mutex_);
  busy_ = false;
  failure_.Update(result);
  if (aborted_) Release();
}

// Containers say by an exception that there is no memory, or that there cannot be as much.
absl::Status ReferenceCommunicator::Operation(int64_t bytes,
                                              absl::FunctionRef<absl::Status()> body) {
  if (absl::Status refusal = Enter(); !refusal.ok()) return refusal;
  absl::Status result;
  try {
    result = body();
  } catch (const std::bad_alloc&) {
    result = NoMemory(bytes);
  } catch (const std::length_error&) {
    result = NoMemory(bytes);
  }
  Leave(result);
  return result;
}

void ReferenceCommunicator::Release() {
  for (Descriptor& link : links_) link.Close();
  interrupt_->Close();
}

void ReferenceCommunicator::Abort(const absl::Status& cause) noexcept {
  if (made_in_ != ForkGeneration()) return;  // the child holds nothing
  absl::MutexLock lock(&mutex_);
  if (finalized_ || aborted_) return;
  aborted_ = true;
  interrupt_->Raise(cause.ok() ? absl::AbortedError("aborted without a cause") : cause);
  // The peers notice now. Our own blocked call, if there is one, wakes and closes when it leaves.
  for (Descriptor& link : links_) link.Shutdown();
  if (!busy_) Release();
}

Holdings ReferenceCommunicator::Held() const {
  Holdings held;
  if (made_in_ != ForkGeneration()) return held;
  absl::MutexLock lock(&mutex_);
  for (const Descriptor& link : links_) held.file_descriptors += link.open() ? 1 : 0;
  held.file_descriptors += interrupt_->open() ? 1 : 0;
  return held;
}

absl::Status ReferenceCommunicator::Finalize(absl::Time deadline) {
  {
    absl::MutexLock lock(&mutex_);
    if (finalized_) return absl::OkStatus();
  }
  absl::Status result = Operation(0, [&] { return WaitForAllToClose(deadline); });
  if (!result.ok()) return result;
  absl::MutexLock lock(&mutex_);
  if (aborted_) return interrupt_->cause();
  finalized_ = true;
  Release();
  return absl::OkStatus();
}

// A connection that is closed while bytes of the peer are unread is reset, and takes with it what
// the peer has not read: so each side says that it is done, and reads until the other has said so.
absl::Status ReferenceCommunicator::WaitForAllToClose(absl::Time deadline) {
  std::vector<int> open;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    shutdown(fd(peer), SHUT_WR);
    open.push_back(peer);
  }
  while (!open.empty()) {
    std::vector<pollfd> polled;
    for (int peer : open) polled.push_back({fd(peer), POLLIN, 0});
    absl::Status status = WaitUntilReady(polled, *interrupt_, deadline);
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(
          absl::StrCat("the deadline passed before ", DescribeRanks(open), " closed"));
    }
    if (!status.ok()) return status;
    std::vector<int> still_open;
    for (size_t i = 0; i < open.size(); ++i) {
      char unread[4096];
      const ssize_t n =
          polled[i].revents == 0 ? 1 : recv(polled[i].fd, unread, sizeof(unread), MSG_DONTWAIT);
      // One that is gone, dead or done, waits for nothing any more.
      const bool waits =
          n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
      if (waits) still_open.push_back(open[i]);
    }
    open = std::move(still_open);
  }
  return absl::OkStatus();
}

}  // namespace muster::reference

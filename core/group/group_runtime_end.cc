// GroupRuntime's end: how the backend gives back what it holds, and what becomes of what it does
// not.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/group_runtime.h"

namespace muster {

void GroupRuntime::Do(action::Finalize& action) {
  gate_.Refuse(absl::FailedPreconditionError(absl::StrCat(
      "the group is closed: ", closed_by_.empty() ? "another one took its name" : closed_by_)));
  std::shared_ptr<Communicator> communicator;
  {
    absl::MutexLock lock(&mutex_);
    communicator = communicator_;
  }
  RunOnHelper(
      "Finalize",
      [this, communicator = std::move(communicator), deadline = action.deadline]() mutable {
        absl::Status status = communicator->Finalize(deadline);
        communicator.reset();
        return status;
      },
      [this](absl::Status result) {
        const bool finalized = result.ok();
        Execute(protocol_.OnFinalized(options_.executor->Now(), std::move(result)));
        if (finalized) release_wanted_ = true;
        ReleaseWhenUnused();
      });
}

void GroupRuntime::Do(action::AbortBackend& action) {
  std::shared_ptr<Communicator> communicator;
  {
    absl::MutexLock lock(&mutex_);
    communicator = communicator_;
    if (!HitFault(FaultPoint::kPoolRollback, options_.rank).ok()) {
      // For tests of the tests: whoever looks for leaks must find this one.
      static_cast<void>(new std::shared_ptr<Communicator>(std::move(communicator_)));
      communicator_ = communicator = nullptr;
    }
  }
  connect_cancellation_.Cancel(action.cause);
  if (communicator != nullptr) communicator->Abort(action.cause);
  release_wanted_ = true;
  ReleaseWhenUnused();
}

void GroupRuntime::Do(action::NameResidue&) {
  LiveGroup left;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> inside;
    if (!helper_inside_.empty()) inside.push_back(helper_inside_);
    if (!gate_.idle()) inside.push_back(gate_.Inside());
    left.name = options_.spec.name;
    left.generation = generation_;
    left.backend = backend_;
    left.device = options_.spec.device.ToString();
    left.state = GroupState::kAborted;
    left.residue = absl::StrCat(
        backend_, " did not give back ",
        communicator_ == nullptr ? "what it holds" : communicator_->Held().ToString(),
        inside.empty() ? "" : absl::StrCat(" (", absl::StrJoin(inside, ", "), " never returned)"),
        " within ", absl::FormatDuration(options_.spec.close_timeout));
  }
  LOG(ERROR) << "group " << protocol_.id() << ": " << left.residue;
  release_started_ = true;
  if (connect_store_ != nullptr) connect_store_->Detach();
  {
    absl::MutexLock lock(&queue_mutex_);
    queue_ends_ = true;
    if (queue_thread_ != nullptr) queue_thread_->Abandon();
  }
  helper_.Abandon();
  std::shared_ptr<const LiveGroup> residue = options_.left_behind(std::move(left));
  bool returned = false;
  {
    absl::MutexLock lock(&mutex_);
    given_up_ = true;
    residue_ = std::move(residue);
    returned = helper_inside_.empty() && gate_.idle();
  }
  // It came back a moment ago, and nobody else will release what it left.
  if (returned) {
    helper_.Start([self = shared_from_this()] { self->CrossOutResidue(); }).IgnoreError();
  }
  helper_.Abandon();
  Step([](GroupProtocol& protocol, absl::Time) { return protocol.OnReleased(); });
}

void GroupRuntime::CrossOutResidue() {
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<const LiveGroup> residue;
  {
    absl::MutexLock lock(&mutex_);
    if (!given_up_ || !helper_inside_.empty() || !gate_.idle()) return;
    communicator = std::move(communicator_);
    communicator_ = nullptr;
    residue = std::move(residue_);
    residue_ = nullptr;
  }
  // May block for ever, too: then it is listed for ever.
  communicator.reset();
}

void GroupRuntime::ReleaseWhenUnused() {
  if (!release_wanted_ || release_started_ || helper_busy_ || !gate_.idle()) return;
  release_started_ = true;
  std::unique_ptr<HelperThread> queue;
  {
    absl::MutexLock lock(&queue_mutex_);
    queue_ends_ = true;
    queue = std::move(queue_thread_);
  }
  std::shared_ptr<Communicator> communicator;
  {
    absl::MutexLock lock(&mutex_);
    communicator = std::move(communicator_);
    communicator_ = nullptr;
  }
  connect_store_.reset();
  if (communicator == nullptr && queue == nullptr) {
    Step([](GroupProtocol& protocol, absl::Time) { return protocol.OnReleased(); });
    return;
  }
  RunOnHelper(
      "the end of its communicator",
      [queue = std::move(queue), communicator = std::move(communicator)]() mutable {
        if (queue != nullptr) queue->Join();
        communicator.reset();
        return absl::OkStatus();
      },
      [this](absl::Status result) {
        if (!result.ok()) {
          LOG(ERROR) << "group " << protocol_.id()
                     << ": its communicator was released on the control thread: " << result;
        }
        Execute(protocol_.OnReleased());
      });
}

void GroupRuntime::LetGo() {
  options_.executor->Cancel(timer_);
  timer_ = 0;
  asked_ = false;  // the name's next group must not be asked in the place of this one
  options_.news->Unsubscribe(this);
  refused_.clear();
  helper_.Join();
  if (connect_store_ != nullptr) connect_store_->Detach();
  self_.reset();
}

}  // namespace muster

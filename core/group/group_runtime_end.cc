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
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/group_runtime.h"

namespace muster {
namespace {

// For the names in the residue: a backend that does not even say what it holds gets no more.
constexpr absl::Duration kToSayWhatIsHeld = absl::Seconds(1);

}  // namespace

GroupRuntime::~GroupRuntime() {
  absl::MutexLock lock(&mutex_);
  if (!given_up_ || communicator_ == nullptr) return;
  // CrossOutResidue got no thread for it. Its end may block for ever, and whoever comes here last
  // may be anybody: so it stays, and stays listed.
  static_cast<void>(new std::shared_ptr<Communicator>(std::move(communicator_)));
  static_cast<void>(new std::shared_ptr<const LiveGroup>(std::move(residue_)));
}

void GroupRuntime::Do(action::Finalize& action) {
  gate_.Refuse(absl::FailedPreconditionError(absl::StrCat(
      "the group is closed: ", closed_by_.empty() ? "another one took its name" : closed_by_)));
  std::shared_ptr<Communicator> communicator;
  {
    absl::MutexLock lock(&mutex_);
    communicator = communicator_;
  }
  RunOnHelper(
      kLife, "Finalize",
      [this, communicator = std::move(communicator), deadline = action.deadline]() mutable {
        absl::Status status = SaidOfTheJob(communicator->Finalize(deadline));
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
  const bool forgets = !HitFault(FaultPoint::kPoolRollback, rank_in_job()).ok();
  bool connected = false;
  {
    absl::MutexLock lock(&mutex_);
    aborted_ = true;
    if (forgets) {
      // For tests of the tests: whoever looks for leaks must find this one.
      static_cast<void>(new std::shared_ptr<Communicator>(std::move(communicator_)));
      communicator_ = nullptr;
    }
    connected = communicator_ != nullptr;
  }
  release_wanted_ = true;
  if (!connected && !helpers_[kLife].busy) {
    connect_cancellation_.Cancel(action.cause);  // nobody listens
    ReleaseWhenUnused();
    return;
  }
  // Nothing is released before it has returned; if it does not in time, it is left behind.
  RunOnHelper(
      kAbort, "Abort",
      [this, cause = action.cause] {
        AbortCalls(cause);
        return absl::OkStatus();
      },
      [this, cause = action.cause](absl::Status result) {
        if (!result.ok()) {
          LOG(ERROR) << "group " << protocol_.id() << ": aborted on the control thread: " << result;
          AbortCalls(cause);
        }
        ReleaseWhenUnused();
      });
}

void GroupRuntime::AbortCalls(const absl::Status& cause) {
  std::shared_ptr<Communicator> communicator;
  {
    absl::MutexLock lock(&mutex_);
    communicator = communicator_;
  }
  connect_cancellation_.Cancel(cause);
  if (communicator != nullptr) communicator->Abort(cause);
}

std::vector<std::string> GroupRuntime::Inside() const {
  std::vector<std::string> inside;
  {
    absl::MutexLock lock(&mutex_);
    for (const std::string& call : helper_inside_) {
      if (!call.empty()) inside.push_back(call);
    }
  }
  if (std::string operations = gate_.Inside(); !operations.empty()) {
    inside.push_back(std::move(operations));
  }
  return inside;
}

void GroupRuntime::Do(action::NameResidue& action) {
  residue_within_ = action.within;
  release_started_ = true;  // never, that is: from here on nothing takes the communicator out
  std::shared_ptr<Communicator> communicator;
  {
    absl::MutexLock lock(&mutex_);
    communicator = communicator_;
  }
  if (communicator == nullptr) return LeaveBehind("what it holds");
  auto held = std::make_shared<std::string>("what it holds");
  RunOnHelper(
      kHeld, "Held",
      [communicator = std::move(communicator), held] {
        *held = communicator->Held().ToString();
        return absl::OkStatus();
      },
      [this, held](const absl::Status&) { LeaveBehind(*held); });
  options_.executor->PostAt(options_.executor->Now() + kToSayWhatIsHeld, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->LeaveBehind("what it holds");
  });
}

void GroupRuntime::LeaveBehind(absl::string_view held) {
  if (std::exchange(left_behind_, true)) return;
  LiveGroup left;
  left.name = options_.spec.name;
  left.device = options_.spec.device.ToString();
  left.state = GroupState::kAborted;
  left.generation = generation();
  left.backend = backend();
  const std::vector<std::string> inside = Inside();
  left.residue = absl::StrCat(
      left.backend, " did not give back ", held,
      inside.empty() ? "" : absl::StrCat(" (", absl::StrJoin(inside, ", "), " never returned)"),
      " within ", absl::FormatDuration(residue_within_));
  LOG(ERROR) << "group " << protocol_.id() << ": " << left.residue;
  if (connect_store_ != nullptr) connect_store_->Detach();
  {
    absl::MutexLock lock(&queue_mutex_);
    queue_ends_ = true;
    if (queue_thread_ != nullptr) queue_thread_->Abandon();
  }
  for (auto& helper : helpers_) helper.thread.Abandon();
  std::shared_ptr<const LiveGroup> residue = options_.left_behind(std::move(left));
  {
    absl::MutexLock lock(&mutex_);
    given_up_ = true;
    residue_ = std::move(residue);
  }
  CrossOutResidue();  // it may have come back a moment ago, and nobody else will look again
  Step([](GroupProtocol& protocol, absl::Time) { return protocol.OnReleased(); });
}

void GroupRuntime::CrossOutResidue() {
  if (!Inside().empty()) return;
  {
    absl::MutexLock lock(&mutex_);
    if (!given_up_ || crossing_out_) return;
    crossing_out_ = true;
  }
  HelperThread thread;
  const absl::Status started = thread.Start([self = shared_from_this()] {
    std::shared_ptr<Communicator> communicator;
    {
      absl::MutexLock lock(&self->mutex_);
      communicator = std::move(self->communicator_);
      self->communicator_ = nullptr;
    }
    communicator.reset();  // may block for ever, too: then it is listed for ever
    std::shared_ptr<const LiveGroup> residue;
    absl::MutexLock lock(&self->mutex_);
    residue.swap(self->residue_);
  });
  thread.Abandon();
  if (!started.ok()) {
    LOG(ERROR) << "group " << id() << ": what it left behind was not released: " << started;
  }
}

void GroupRuntime::ReleaseWhenUnused() {
  if (!release_wanted_ || release_started_ || helpers_[kLife].busy || helpers_[kAbort].busy ||
      !gate_.idle()) {
    return;
  }
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
      kLife, "the end of its communicator",
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
  if (watch_ != nullptr) watch_->Stop();
  asked_ = false;  // the name's next group must not be asked in the place of this one
  options_.news->Unsubscribe(this);
  refused_.clear();
  for (auto& helper : helpers_) helper.thread.Join();
  if (connect_store_ != nullptr) connect_store_->Detach();
  if (census_ != nullptr) census_->Stop();
  self_.reset();
}

}  // namespace muster

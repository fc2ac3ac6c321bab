#include "muster/core/platform/control_thread.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>  // NOLINT(build/c++11): asio's timers speak it
#include <exception>
#include <map>
#include <thread>  // NOLINT(build/c++11): absl has no thread
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/debugging/leak_check.h"
#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "asio/executor_work_guard.hpp"
#include "asio/io_context.hpp"
#include "asio/post.hpp"
#include "asio/steady_timer.hpp"
#include "muster/core/platform/fork_guard.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/standard_descriptors.h"

namespace muster {
namespace {

// Asio copies a handler's type about but never the handler: a move-only one is fine.
struct RunTask {
  Executor::Task task;
  void operator()() { task(); }
};

}  // namespace

struct ControlThread::Core {
  // No concurrency hint of 1: with it, what the thread itself posts waits in a queue of its own
  // until its task is done, and what others post meanwhile overtakes it. Post promises one order.
  asio::io_context context;
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::steady_timer timer{context};
  std::thread thread;
  std::atomic<std::thread::id> id{};
  absl::Notification finished;
  const uint64_t fork_generation = ForkGeneration();

  absl::Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  absl::Mutex join_mutex;  // taken by Stop alone, so that two callers do not join at once
  bool joined ABSL_GUARDED_BY(join_mutex) = false;  // or detached
  std::atomic<bool> left_behind{false};

  TimerId next_id ABSL_GUARDED_BY(mutex) = 1;
  std::map<std::pair<absl::Time, TimerId>, Task> timers ABSL_GUARDED_BY(mutex);
  std::map<TimerId, absl::Time> due ABSL_GUARDED_BY(mutex);

  void Run() {
    id = std::this_thread::get_id();
    context.run();
    // What was posted before Stop has run. What that posted runs as well, but a task that posts
    // itself for ever must not keep us.
    context.restart();
    for (int i = 0; i < 10000 && context.poll_one() > 0; ++i) {
    }
    // Captures of timers may hold what must end before Stop returns.
    std::map<std::pair<absl::Time, TimerId>, Task> dropped;
    {
      absl::MutexLock lock(&mutex);
      dropped.swap(timers);
      due.clear();
    }
    dropped.clear();
    id = std::thread::id();  // the system may give ours to another thread once we are joined
    finished.Notify();
  }

  // On the thread. Asks asio for one wake-up, at the earliest timer.
  void Arm() {
    absl::Time earliest;
    {
      absl::MutexLock lock(&mutex);
      if (timers.empty() || stopping) return;
      earliest = timers.begin()->first.first;
    }
    // The bound keeps far times within what asio can add; waking up for nothing once an hour is
    // fine.
    const absl::Duration wait = std::min(earliest - MonotonicNow(), absl::Hours(1));
    timer.expires_after(absl::ToChronoNanoseconds(std::max(wait, absl::ZeroDuration())));
    timer.async_wait([this](const asio::error_code& error) {
      if (error) return;  // armed anew, for an earlier time
      RunDue();
      Arm();
    });
  }

  void RunDue() {
    // Those due by now, not those that they add: posted tasks and sockets must get their turn.
    const absl::Time now = MonotonicNow();
    for (;;) {
      Task task;
      {
        absl::MutexLock lock(&mutex);
        if (stopping || timers.empty() || timers.begin()->first.first > now) return;
        due.erase(timers.begin()->first.second);
        task = std::move(timers.begin()->second);
        timers.erase(timers.begin());
      }
      task();
    }
  }
};

absl::StatusOr<std::unique_ptr<ControlThread>> ControlThread::Start() {
  // The new thread inherits the mask of this one.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  std::shared_ptr<Core> core;
  absl::Status failure;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {  // asio and std::thread throw when the system refuses
    // A program without stdout must not print into asio's descriptors.
    const StandardDescriptors standard;
    core = std::make_shared<Core>();
    core->thread = std::thread([core] { core->Run(); });
    pthread_setname_np(core->thread.native_handle(), "muster-control");
  } catch (const std::exception& error) {
    failure = absl::ResourceExhaustedError(
        absl::StrCat("cannot start the control thread: ", error.what(),
                     ": raise the limit of threads or of open files (ulimit -u, ulimit -n)"));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!failure.ok()) return failure;
  return std::unique_ptr<ControlThread>(new ControlThread(std::move(core)));
}

ControlThread::ControlThread(std::shared_ptr<Core> core) : core_(std::move(core)) {}

ControlThread::~ControlThread() {
  const absl::Status stopped = Stop(kStopBound);
  if (!stopped.ok()) LOG(ERROR) << stopped.message();
}

absl::Status ControlThread::Stop(absl::Duration bound) {
  if (core_->fork_generation != ForkGeneration()) {
    // A forked child: there is no thread to join, and its locks may be held for ever.
    absl::IgnoreLeak(new std::shared_ptr<Core>(core_));
    return absl::OkStatus();
  }
  {
    absl::MutexLock lock(&core_->mutex);
    if (!core_->stopping) {
      core_->stopping = true;
      asio::post(core_->context, [core = core_.get()] {
        core->timer.cancel();
        core->context.stop();
      });
    }
  }
  if (RunsHere()) {
    absl::MutexLock lock(&core_->join_mutex);
    if (!std::exchange(core_->joined, true)) core_->thread.detach();
    return absl::FailedPreconditionError(
        "the control thread was stopped by one of its own tasks, which cannot wait for itself: "
        "stop "
        "it, and destroy what owns it, on another thread");
  }
  if (core_->left_behind) bound = absl::ZeroDuration();  // waited for it once
  if (!core_->finished.WaitForNotificationWithTimeout(bound)) {
    core_->left_behind = true;
    absl::MutexLock lock(&core_->join_mutex);
    if (!std::exchange(core_->joined, true)) core_->thread.detach();
    return absl::DeadlineExceededError(
        absl::StrCat("the control thread did not stop within ", absl::FormatDuration(bound),
                     ": one of its tasks blocks, and the thread is left behind with it"));
  }
  absl::MutexLock lock(&core_->join_mutex);
  if (!std::exchange(core_->joined, true)) core_->thread.join();
  return absl::OkStatus();
}

asio::io_context& ControlThread::context() { return core_->context; }

absl::Time ControlThread::Now() const { return MonotonicNow(); }

void ControlThread::Post(Task task) { asio::post(core_->context, RunTask{std::move(task)}); }

Executor::TimerId ControlThread::PostAt(absl::Time when, Task task) {
  Task dropped;  // destroyed outside of the lock
  absl::MutexLock lock(&core_->mutex);
  const TimerId id = core_->next_id++;
  if (when == absl::InfiniteFuture() || core_->stopping) {
    dropped = std::move(task);
    return id;
  }
  core_->timers.emplace(std::make_pair(when, id), std::move(task));
  core_->due.emplace(id, when);
  if (core_->timers.begin()->first.second == id) {
    asio::post(core_->context, [core = core_.get()] { core->Arm(); });
  }
  return id;
}

void ControlThread::Cancel(TimerId timer) {
  Task dropped;  // destroyed outside of the lock
  absl::MutexLock lock(&core_->mutex);
  const auto found = core_->due.find(timer);
  if (found == core_->due.end()) return;
  auto node = core_->timers.extract({found->second, timer});
  dropped = std::move(node.mapped());
  core_->due.erase(found);
}

bool ControlThread::RunsHere() const { return core_->id.load() == std::this_thread::get_id(); }

}  // namespace muster

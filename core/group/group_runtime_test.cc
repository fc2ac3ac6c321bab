// One rank's runtime under a store and a backend that come back in the order that a test wants.
#include "muster/core/group/group_runtime.h"

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <thread>  // NOLINT(build/c++11): callers are threads here
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/fault/fault.h"
#include "muster/core/group/detachable_executor.h"
#include "muster/core/group/fake_backend.h"
#include "muster/core/group/introduce.h"
#include "muster/core/group/job_connection.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/executor.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/rendezvous/world.h"
#include "muster/core/store/memory_store.h"
#include "muster/core/store/store.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }
absl::Duration Soon() { return absl::Seconds(10) * TimeoutScale(); }

// Passes everything on; what is to be written to records it can keep back.
class HeldStore final : public Store {
 public:
  explicit HeldStore(std::unique_ptr<Store> target) : target_(std::move(target)) {}

  void Hold() {
    absl::MutexLock lock(&mutex_);
    holding_ = true;
  }
  void LetGo() {
    std::vector<absl::AnyInvocable<void()>> kept;
    {
      absl::MutexLock lock(&mutex_);
      holding_ = false;
      kept.swap(kept_);
    }
    for (auto& request : kept) request();
  }

  void CompareAndSet(absl::string_view key, Revision expected, absl::string_view value,
                     Lifetime lifetime, absl::Time deadline,
                     Callback<CompareAndSetResult> done) override {
    absl::AnyInvocable<void()> request = [this, key = std::string(key), expected,
                                          value = std::string(value), lifetime, deadline,
                                          done = std::move(done)]() mutable {
      target_->CompareAndSet(key, expected, value, lifetime, deadline, std::move(done));
    };
    {
      absl::MutexLock lock(&mutex_);
      if (first_deadline_ == absl::InfinitePast()) first_deadline_ = deadline;
      if (holding_) {
        kept_.push_back(std::move(request));
        return;
      }
    }
    request();
  }

  // Of the first write to a record.
  absl::Time first_deadline() {
    absl::MutexLock lock(&mutex_);
    return first_deadline_;
  }

  void Get(absl::string_view key, absl::Time deadline, Callback<Entry> done) override {
    target_->Get(key, deadline, std::move(done));
  }
  void Set(absl::string_view key, absl::string_view value, Lifetime lifetime, absl::Time deadline,
           Callback<Revision> done) override {
    target_->Set(key, value, lifetime, deadline, std::move(done));
  }
  void Delete(absl::string_view key, absl::Time deadline, DoneCallback done) override {
    target_->Delete(key, deadline, std::move(done));
  }
  WatchId Watch(absl::string_view prefix, WatchCallback changed) override {
    return target_->Watch(prefix, std::move(changed));
  }
  void Unwatch(WatchId watch) override { target_->Unwatch(watch); }
  void GatherAmong(absl::string_view key, const Gathering& among, absl::string_view value,
                   absl::Time deadline, Callback<GatherResult> done) override {
    target_->GatherAmong(key, among, value, deadline, std::move(done));
  }
  void Withdraw(absl::string_view key, int rank, absl::string_view reason) override {
    target_->Withdraw(key, rank, reason);
  }
  void Leave(absl::string_view reason, absl::Time deadline, DoneCallback done) override {
    target_->Leave(reason, deadline, std::move(done));
  }

 private:
  const std::unique_ptr<Store> target_;
  absl::Mutex mutex_;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time first_deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::vector<absl::AnyInvocable<void()>> kept_ ABSL_GUARDED_BY(mutex_);
};

// Counts what other threads post.
class CountingExecutor final : public Executor {
 public:
  explicit CountingExecutor(Executor* target)
      : target_(std::make_shared<DetachableExecutor>(target)) {}
  // What an abandoned thread posts later is dropped.
  void Detach() { target_->Detach(); }
  int posts() const { return posts_; }

  absl::Time Now() const override { return target_->Now(); }
  void Post(Task task) override {
    if (!target_->RunsHere()) ++posts_;
    target_->Post(std::move(task));
  }
  TimerId PostAt(absl::Time when, Task task) override {
    return target_->PostAt(when, std::move(task));
  }
  void Cancel(TimerId timer) override { target_->Cancel(timer); }
  bool RunsHere() const override { return target_->RunsHere(); }

 private:
  const std::shared_ptr<DetachableExecutor> target_;
  std::atomic<int> posts_{0};
};

class GroupRuntimeTest : public ::testing::Test {
 protected:
  // A ready group of one rank, whose backend does as `rules` says.
  void Start(const FakeWorld::Rules& rules = {}) {
    fake_.rules[0] = rules;
    backends_.Register("fake", std::make_unique<FakeBackend>("fake", &fake_), __FILE__, __LINE__);
    World world;
    absl::StatusOr<JobConnection> connection = OpenJobConnection(world, server_);
    ASSERT_TRUE(connection.ok()) << connection.status();
    control_ = std::move(connection->control);
    store_ = std::make_unique<HeldStore>(std::move(connection->store));
    executor_ = std::make_shared<CountingExecutor>(control_.get());
    news_ = std::make_shared<StoreNews>(store_.get());
    absl::Notification joined;
    control_->Post([&] { news_->Start([&](const absl::Status&) { joined.Notify(); }); });
    joined.WaitForNotification();

    GroupRuntime::Options options;
    options.spec.name = "train";
    options.spec.backend = "fake";
    options.spec.setup_timeout = Soon();
    options.spec.close_timeout = absl::Milliseconds(500);  // from an abort to the residue
    options.spec.cause_window = Soon();  // so that the residue is named before the cause
    Introduction self;
    self.incarnation = connection->incarnation;
    options.introduction = Introduce(std::move(self), options.spec, backends_, LivePools::Global());
    options.executor = executor_;
    options.store = store_.get();
    options.news = news_;
    options.backends = &backends_;
    options.ask_holders = [](const GroupRuntime::Options::InFlight& busy) { return busy(); };
    options.vote_ended = options.changed = [] {};
    options.left_behind = [this](LiveGroup left) {
      auto residue = std::make_shared<const LiveGroup>(std::move(left));
      absl::MutexLock lock(&mutex_);
      residue_ = residue;
      residue_text_ = residue->residue;
      return residue;
    };
    runtime_ = std::make_shared<GroupRuntime>(std::move(options));
    runtime_->Start();
    const absl::Status ready = runtime_->WaitReady();
    ASSERT_TRUE(ready.ok()) << ready;
  }

  void TearDown() override {
    fake_.Unblock();
    if (store_ != nullptr) store_->LetGo();
    if (runtime_ != nullptr) {
      runtime_->BeginAbort(absl::CancelledError("the test is over"));
      runtime_->WaitTerminal().IgnoreError();
    }
    ExpectAllGivenBack();
    runtime_.reset();
    if (control_ == nullptr) return;
    absl::Notification silent;
    control_->Post([&] {
      news_->Stop();
      silent.Notify();
    });
    silent.WaitForNotification();
    store_.reset();
    control_->Stop().IgnoreError();
    executor_->Detach();
  }

  void ExpectAllGivenBack() {
    const absl::Time deadline = MonotonicNow() + Soon();
    while ((listed() || fake_.live() > 0) && MonotonicNow() < deadline) std::this_thread::yield();
    EXPECT_FALSE(listed());
    EXPECT_EQ(fake_.live(), 0);
  }
  void AwaitResidue() {
    absl::MutexLock lock(&mutex_);
    const auto named = [this]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !residue_text_.empty(); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&named), Soon()));
  }
  bool listed() const {
    absl::MutexLock lock(&mutex_);
    return !residue_.expired();
  }
  std::string residue_text() const {
    absl::MutexLock lock(&mutex_);
    return residue_text_;
  }

  // `result`: of the operation, once the store lets the cause through.
  void ExpectRunAsyncReturnsAtOnce(absl::string_view result) {
    Work work;
    absl::Notification returned;
    std::thread caller([&] {
      work = runtime_->RunAsync(NeverRun(), absl::InfiniteDuration());
      returned.Notify();
    });
    EXPECT_TRUE(returned.WaitForNotificationWithTimeout(Soon() / 2)) << "it waits for the cause";
    EXPECT_FALSE(returned.HasBeenNotified() && work.done());
    store_->LetGo();
    caller.join();
    EXPECT_EQ(Message(work.Wait()), result);
  }

  // An operation that no abort ends.
  GroupRuntime::Operation Stuck(absl::Status result = absl::InternalError("came back")) {
    return {"all_reduce", OperationGate::Kind::kCollective,
            [this, result](Communicator&, const OperationOptions&) {
              inside_.Notify();
              go_.WaitForNotification();
              return result;
            }};
  }
  static GroupRuntime::Operation NeverRun() {
    return {"all_reduce", OperationGate::Kind::kCollective,
            [](Communicator&, const OperationOptions&) {
              ADD_FAILURE() << "it ran behind one that is stuck";
              return absl::OkStatus();
            }};
  }

  template <class Exception>
  static GroupRuntime::Operation Throws(Exception exception) {
    return {
        "all_reduce", OperationGate::Kind::kCollective,
        [exception](Communicator&, const OperationOptions&) -> absl::Status { throw exception; }};
  }

  absl::Notification inside_, go_;  // of the stuck operation
  FakeWorld fake_;
  BackendRegistry backends_;
  MemoryStoreServer server_{{1}};
  std::unique_ptr<ControlThread> control_;
  std::unique_ptr<HeldStore> store_;
  std::shared_ptr<CountingExecutor> executor_;
  std::shared_ptr<StoreNews> news_;
  std::shared_ptr<GroupRuntime> runtime_;

  mutable absl::Mutex mutex_;
  std::weak_ptr<const LiveGroup> residue_ ABSL_GUARDED_BY(mutex_);
  std::string residue_text_ ABSL_GUARDED_BY(mutex_);
};

// A close_timeout of a moment is no reason to give up a set-up whose store is slow.
TEST_F(GroupRuntimeTest, WhatTheSetUpWritesHasTheTimeOfTheSetUp) {
  const absl::Time before = MonotonicNow();
  Start();
  EXPECT_GE(store_->first_deadline(), before + Soon());
}

// The stuck operation sees others wait behind it; when these are taken out nobody else would look.
TEST_F(GroupRuntimeTest, ResidueIsCrossedOutWhenTheCauseComesAfterTheStuckOperationHasReturned) {
  Start();
  std::vector<Work> works;
  works.push_back(runtime_->RunAsync(Stuck(), absl::InfiniteDuration()));
  inside_.WaitForNotification();
  works.push_back(runtime_->RunAsync(NeverRun(), absl::InfiniteDuration()));
  works.push_back(runtime_->RunAsync(NeverRun(), absl::InfiniteDuration()));
  store_->Hold();
  runtime_->BeginAbort(absl::CancelledError("stop"));
  AwaitResidue();
  const int before = executor_->posts();
  go_.Notify();
  // Its failure, and then, when it has left the gate, that it has.
  while (executor_->posts() < before + 2) std::this_thread::yield();
  EXPECT_TRUE(listed()) << "two operations have not ended";
  store_->LetGo();
  for (Work& work : works) EXPECT_THAT(Message(work.Wait()), HasSubstr("of train/1: stop"));
  ExpectAllGivenBack();
}

TEST_F(GroupRuntimeTest, ACommunicatorThatDoesNotEndHoldsNoOperationThatHasComeBack) {
  FakeWorld::Rules rules;
  rules.destructor_hangs = true;
  Start(rules);
  absl::Status result;
  absl::Notification returned;
  std::thread caller([&] {
    result = runtime_->Run(Stuck(), absl::InfiniteDuration());
    returned.Notify();
  });
  inside_.WaitForNotification();
  runtime_->BeginAbort(absl::CancelledError("stop"));
  AwaitResidue();
  go_.Notify();
  EXPECT_TRUE(returned.WaitForNotificationWithTimeout(Soon()));
  fake_.WaitForHang();
  EXPECT_TRUE(listed()) << "until its end has come, it is left behind";
  EXPECT_THAT(Message(runtime_->status()), HasSubstr("(all_reduce #1 never returned)"));
  fake_.Unblock();
  caller.join();
  EXPECT_EQ(Message(result), "all_reduce #1 of train/1: stop");
  ExpectAllGivenBack();
}

// Whoever had it could be the last to let go of it, and would have to wait for its end.
TEST_F(GroupRuntimeTest, AnOperationThatComesAfterTheAbortDoesNotGetTheCommunicator) {
  Start();
  Work stuck = runtime_->RunAsync(Stuck(absl::OkStatus()), absl::InfiniteDuration());
  inside_.WaitForNotification();
  Work next = runtime_->RunAsync(NeverRun(), absl::InfiniteDuration());
  store_->Hold();  // until the cause is known, the gate is open
  runtime_->BeginAbort(absl::CancelledError("stop"));
  AwaitResidue();
  go_.Notify();
  EXPECT_TRUE(stuck.Wait().ok());
  ExpectAllGivenBack();
  store_->LetGo();
  EXPECT_EQ(Message(next.Wait()), "all_reduce #2 of train/1: stop");
}

// What is left is named all the same, after a moment for the answer.
TEST_F(GroupRuntimeTest, ABackendThatDoesNotSayWhatItHoldsHoldsUpNobody) {
  FakeWorld::Rules rules;
  rules.held_hangs = true;
  Start(rules);
  std::thread caller([&] { EXPECT_FALSE(runtime_->Run(Stuck(), absl::InfiniteDuration()).ok()); });
  inside_.WaitForNotification();
  runtime_->BeginAbort(absl::CancelledError("stop"));
  fake_.WaitForHang();
  absl::Notification ran;
  executor_->Post([&] { ran.Notify(); });
  ran.WaitForNotification();
  EXPECT_EQ(runtime_->id(), "train/1");
  EXPECT_EQ(Message(runtime_->WaitTerminal()), "stop");
  EXPECT_EQ(
      residue_text(),
      "fake did not give back what it holds (Held, all_reduce #1 never returned) within 500ms");
  go_.Notify();
  caller.join();
  EXPECT_TRUE(listed()) << "it is still being asked";
  fake_.Unblock();
  ExpectAllGivenBack();
}

TEST_F(GroupRuntimeTest, AnAbortThatDoesNotReturnHoldsUpNobodyAndIsLeftBehind) {
  FakeWorld::Rules rules;
  rules.abort_hangs = true;
  Start(rules);
  runtime_->BeginAbort(absl::CancelledError("stop"));
  fake_.WaitForHang();
  absl::Notification ran;
  executor_->Post([&] { ran.Notify(); });
  ran.WaitForNotification();
  EXPECT_EQ(Message(runtime_->WaitTerminal()), "stop");
  EXPECT_EQ(residue_text(),
            "fake did not give back 1 file descriptor (Abort never returned) within 500ms");
  EXPECT_TRUE(listed());
  EXPECT_EQ(fake_.live(), 1) << "it is inside of it";
  fake_.Unblock();
  ExpectAllGivenBack();
}

// The abort finds the group idle and lets its queue go; until the cause is known the gate is open.
TEST_F(GroupRuntimeTest, AnAsynchronousOperationDoesNotWaitForTheCauseOfAnAbort) {
  Start();
  store_->Hold();
  runtime_->BeginAbort(absl::CancelledError("stop"));
  while (fake_.live() > 0) std::this_thread::yield();
  ExpectRunAsyncReturnsAtOnce("all_reduce #1 of train/1: stop");
}

TEST_F(GroupRuntimeTest, AnAsynchronousOperationThatGetsNoThreadDoesNotWaitForTheCause) {
  Start();
  absl::StatusOr<ScopedFaults> faults =
      ScopedFaults::Arm("group.queue=fail(message=\"no thread\")");
  ASSERT_TRUE(faults.ok()) << faults.status();
  store_->Hold();
  ExpectRunAsyncReturnsAtOnce("all_reduce #1 of train/1: rank 0: no thread");
}

TEST_F(GroupRuntimeTest, AnExceptionThatABackendLetsOutIsAFailure) {
  Start();
  EXPECT_EQ(Message(runtime_->Run(Throws(std::bad_alloc()), Soon())),
            "all_reduce #1 of train/1: rank 0: the backend \"fake\" let an exception out: "
            "std::bad_alloc");
  EXPECT_EQ(runtime_->WaitTerminal().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(residue_text(), "") << "nobody is inside";
}

TEST_F(GroupRuntimeTest, AnExceptionOnTheGroupsOwnThreadDoesNotEndTheProcess) {
  Start();
  EXPECT_THAT(Message(runtime_->RunAsync(Throws(17), Soon()).Wait()),
              HasSubstr("let an exception out: it is no std::exception"));
}

TEST_F(GroupRuntimeTest, TheStatusOfAGroupThatIsAbortingIsNeverOk) {
  Start();
  store_->Hold();
  runtime_->BeginAbort(absl::CancelledError("stop"));
  while (runtime_->state() != GroupState::kAborting) std::this_thread::yield();
  const absl::Status unknown = runtime_->status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnavailable) << unknown;
  EXPECT_EQ(Message(unknown), "'train/1' is aborting; its cause is not known yet");
  store_->LetGo();
  runtime_->WaitTerminal().IgnoreError();
  EXPECT_EQ(Message(runtime_->status()), "stop");
}

}  // namespace
}  // namespace muster

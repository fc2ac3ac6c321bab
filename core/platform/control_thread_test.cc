#include "muster/core/platform/control_thread.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

absl::Duration Patience() { return TimeoutScale() * absl::Seconds(20); }

std::unique_ptr<ControlThread> StartOrDie() {
  auto control = ControlThread::Start();
  EXPECT_TRUE(control.ok()) << control.status();
  return *std::move(control);
}

void Await(absl::Notification& notification) {
  ASSERT_TRUE(notification.WaitForNotificationWithTimeout(Patience()));
}

TEST(ControlThreadTest, RunsTasksOneAtATimeInTheOrderOfEachPoster) {
  auto control = StartOrDie();
  constexpr int kThreads = 4;
  constexpr int kTasks = 500;
  std::vector<int> last(kThreads, -1);
  std::atomic<int> inside{0};
  std::atomic<int> out_of_order{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        control->Post([&, t, i] {
          if (inside++ != 0 || last[t] != i - 1) ++out_of_order;
          last[t] = i;
          --inside;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(control->Stop().ok());
  EXPECT_EQ(out_of_order, 0);
  EXPECT_EQ(last, std::vector<int>(kThreads, kTasks - 1));
}

TEST(ControlThreadTest, PostNeverRunsTheTaskInsideTheCall) {
  auto control = StartOrDie();
  absl::Notification done;
  bool inside_post = false;
  bool nested = false;
  control->Post([&] {
    EXPECT_TRUE(control->RunsHere());
    inside_post = true;
    control->Post([&] {
      nested = inside_post;
      done.Notify();
    });
    inside_post = false;
  });
  Await(done);
  EXPECT_FALSE(nested);
  EXPECT_FALSE(control->RunsHere());
}

// News of one event must not overtake the answer that was produced before it, whoever posted which.
TEST(ControlThreadTest, WhatATaskPostsIsNotOvertakenByWhatOthersPostAfterIt) {
  auto control = StartOrDie();
  std::vector<int> order;
  absl::Notification posted_inside, posted_outside, done;
  control->Post([&] {
    control->Post([&] { order.push_back(1); });
    posted_inside.Notify();
    posted_outside.WaitForNotification();  // the task goes on while another thread posts
  });
  posted_inside.WaitForNotification();
  control->Post([&] {
    order.push_back(2);
    done.Notify();
  });
  posted_outside.Notify();
  done.WaitForNotification();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(ControlThreadTest, TimersRunInOrderOfTimeAndNotBeforeIt) {
  auto control = StartOrDie();
  absl::Notification done;
  std::vector<int> order;
  const absl::Time start = control->Now();
  bool early = false;
  const auto at = [&](int milliseconds, int name) {
    const absl::Time when = start + absl::Milliseconds(milliseconds);
    control->PostAt(when, [&, when, name] {
      if (control->Now() < when) early = true;
      order.push_back(name);
      if (name == 4) done.Notify();
    });
  };
  at(60, 4);
  at(20, 2);  // earlier than what is armed
  at(20, 3);
  at(-1000, 1);
  control->PostAt(absl::InfiniteFuture(), [&] { order.push_back(-1); });
  control->PostAt(start + absl::Hours(1000000), [&] { order.push_back(-2); });
  Await(done);
  EXPECT_TRUE(control->Stop().ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_FALSE(early);
}

TEST(ControlThreadTest, ATimerCancelledByATaskDoesNotRunEvenWhenItIsDue) {
  auto control = StartOrDie();
  absl::Notification done;
  bool ran = false;
  control->Post([&] {
    const auto timer = control->PostAt(control->Now() - absl::Seconds(1), [&] { ran = true; });
    control->Cancel(timer);
    control->Cancel(timer);
    control->PostAt(control->Now() + absl::Milliseconds(1), [&] { done.Notify(); });
  });
  Await(done);
  EXPECT_FALSE(ran);
}

TEST(ControlThreadTest, StopRunsWhatWasPostedAndWhatThatPostsAndDropsTimers) {
  auto control = StartOrDie();
  auto held = std::make_shared<int>(0);
  bool first = false;
  bool second = false;
  control->PostAt(control->Now() + absl::Hours(1), [held] { ++*held; });
  control->Post([&] {
    first = true;
    control->Post([&] { second = true; });
  });
  EXPECT_TRUE(control->Stop().ok());
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
  EXPECT_EQ(held.use_count(), 1);  // the timer's captures are gone
  EXPECT_EQ(*held, 0);
  EXPECT_TRUE(control->Stop().ok());
  control->Post([held] { ++*held; });
  EXPECT_EQ(control->PostAt(control->Now(), [held] { ++*held; }) > 0, true);
  control.reset();
  EXPECT_EQ(*held, 0);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ControlThreadTest, ATaskThatPostsItselfForEverDoesNotKeepStop) {
  auto control = StartOrDie();
  struct Again {
    ControlThread* control;
    void operator()() const { control->Post(Again{control}); }
  };
  control->Post(Again{control.get()});
  EXPECT_TRUE(control->Stop(Patience()).ok());
}

TEST(ControlThreadTest, ATaskThatBlocksMakesStopReturnAtItsBoundAndSaySo) {
  auto control = StartOrDie();
  auto release = std::make_shared<absl::Notification>();
  auto entered = std::make_shared<absl::Notification>();
  auto left = std::make_shared<absl::Notification>();
  control->Post([=] {
    entered->Notify();
    release->WaitForNotification();
    left->Notify();
  });
  Await(*entered);
  const absl::Status status = control->Stop(absl::Milliseconds(50));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  control.reset();
  release->Notify();
  Await(*left);
}

TEST(ControlThreadTest, StoppedByItsOwnTaskSaysSoInsteadOfDeadlocking) {
  auto control = StartOrDie();
  absl::Notification done;
  absl::Status status;
  control->Post([&] {
    status = control->Stop();
    done.Notify();
  });
  Await(done);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(control->Stop().ok());
}

TEST(ControlThreadTest, ManyThreadsMayStopItAtOnce) {
  auto control = StartOrDie();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(control->Stop(Patience()).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ControlThreadTest, TheTimeIsMonotonicAndNearTheWallClock) {
  auto control = StartOrDie();
  const absl::Time first = control->Now();
  const absl::Time second = control->Now();
  EXPECT_LE(first, second);
  EXPECT_LT(absl::AbsDuration(MonotonicNow() - absl::Now()), absl::Minutes(10));
}

TEST(ControlThreadTest, NoSignalOfTheProgramRunsOnIt) {
  auto control = StartOrDie();
  absl::Notification done;
  bool blocked = false;
  control->Post([&] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGINT) == 1;
    done.Notify();
  });
  Await(done);
  EXPECT_TRUE(blocked);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
}

TEST(ControlThreadTest, AForkedChildLetsGoOfItInsteadOfJoiningAThreadThatIsNotThere) {
  auto control = StartOrDie();
  const pid_t child = fork();
  if (child == 0) {
    alarm(static_cast<unsigned>(absl::ToInt64Seconds(Patience())));
    control.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  absl::Notification done;
  control->Post([&] { done.Notify(); });  // the parent's goes on
  Await(done);
}

}  // namespace
}  // namespace muster

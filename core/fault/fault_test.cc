#include "muster/core/fault/fault.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/fault/fault_point.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

ScopedFaults Armed(absl::string_view text) {
  absl::StatusOr<ScopedFaults> faults = ScopedFaults::Arm(text);
  EXPECT_TRUE(faults.ok()) << faults.status();
  return *std::move(faults);
}

Environment With(std::string faults) { return Environment({{"MUSTER_FAULTS", std::move(faults)}}); }

TEST(FaultTest, OffByDefault) {
  for (const FaultPointInfo& info : AllFaultPoints()) EXPECT_TRUE(HitFault(info.point, 0).ok());
  EXPECT_EQ(fault_internal::armed.load(), 0);
}

TEST(FaultTest, FailsWhereItIsArmedAndNowhereElse) {
  const ScopedFaults faults = Armed("pool.connected=fail(message=\"no route\",rank=1)");
  EXPECT_TRUE(HitFault(FaultPoint::kPoolConnecting, 1).ok());
  EXPECT_TRUE(HitFault(FaultPoint::kPoolConnected, 0).ok());
  EXPECT_EQ(HitFault(FaultPoint::kPoolConnected, 1), absl::AbortedError("no route"));
  EXPECT_EQ(faults.happened(), 1);
}

TEST(FaultTest, WithoutAMessageItNamesThePoint) {
  const ScopedFaults faults = Armed("pool.connected=fail");
  EXPECT_EQ(HitFault(FaultPoint::kPoolConnected, 0),
            absl::AbortedError("injected fault at pool.connected"));
}

TEST(FaultTest, CountsTheVisitsOfEachRankAlone) {
  const ScopedFaults faults = Armed("group.operation=fail(nth=2)");
  EXPECT_TRUE(HitFault(FaultPoint::kGroupOperation, 0).ok());
  EXPECT_TRUE(HitFault(FaultPoint::kGroupOperation, 1).ok());
  EXPECT_FALSE(HitFault(FaultPoint::kGroupOperation, 1).ok());
  EXPECT_FALSE(HitFault(FaultPoint::kGroupOperation, 0).ok());
  EXPECT_TRUE(HitFault(FaultPoint::kGroupOperation, 0).ok());
  EXPECT_EQ(faults.happened(), 2);
}

TEST(FaultTest, EndsWithItsScope) {
  {
    const ScopedFaults faults = Armed("pool.connected=fail;pool.rollback=fail");
    EXPECT_FALSE(HitFault(FaultPoint::kPoolRollback, 0).ok());
  }
  EXPECT_TRUE(HitFault(FaultPoint::kPoolRollback, 0).ok());
  EXPECT_EQ(fault_internal::armed.load(), 0);
}

TEST(FaultTest, LivesOnInWhatItWasMovedTo) {
  ScopedFaults first = Armed("pool.connected=fail");
  ScopedFaults second = Armed("pool.rollback=fail");
  second = std::move(first);
  EXPECT_TRUE(HitFault(FaultPoint::kPoolRollback, 0).ok());
  EXPECT_FALSE(HitFault(FaultPoint::kPoolConnected, 0).ok());
  const ScopedFaults third = std::move(second);
  EXPECT_FALSE(HitFault(FaultPoint::kPoolConnected, 0).ok());
  EXPECT_EQ(third.happened(), 2);
}

TEST(FaultTest, UnknownTextArmsNothing) {
  EXPECT_EQ(ScopedFaults::Arm("pool.connected=fail;nowhere=fail").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fault_internal::armed.load(), 0);
}

TEST(FaultTest, DelaysAtLeastAsLongAsAsked) {
  const ScopedFaults faults = Armed("group.operation=delay(duration=20ms)");
  const absl::Time start = absl::Now();
  EXPECT_TRUE(HitFault(FaultPoint::kGroupOperation, 0).ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(15));
}

TEST(FaultTest, ADelayBeforeAFailureBothHappen) {
  const ScopedFaults faults = Armed("group.operation=delay(duration=1ms);group.operation=fail");
  EXPECT_FALSE(HitFault(FaultPoint::kGroupOperation, 0).ok());
  EXPECT_EQ(faults.happened(), 2);
}

// In children, since these end or stop the process, or arm it for good.
TEST(FaultDeathTest, CrashIsSigkill) {
  EXPECT_EXIT(
      {
        const ScopedFaults faults = Armed("pool.connected=crash");
        (void)HitFault(FaultPoint::kPoolConnected, 0);
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(FaultDeathTest, ExitRunsExitHooksAndGivesTheCode) {
  EXPECT_EXIT(
      {
        std::atexit([] { (void)!write(STDERR_FILENO, "hook ran\n", 9); });
        const ScopedFaults faults = Armed("pool.connected=exit(code=41)");
        (void)HitFault(FaultPoint::kPoolConnected, 0);
      },
      ::testing::ExitedWithCode(41), "hook ran");
}

TEST(FaultDeathTest, StopStopsTheProcessUntilItIsContinued) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const ScopedFaults faults = Armed("pool.connected=stop");
    _exit(HitFault(FaultPoint::kPoolConnected, 0).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  ASSERT_EQ(kill(child, SIGCONT), 0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(FaultDeathTest, TheEnvironmentArmsOnceForTheProcess) {
  EXPECT_EXIT(
      {
        bool good = ArmFaultsFromEnvironment(Environment({})).ok();
        good = good && ArmFaultsFromEnvironment(With("pool.connected=fail(nth=2)")).ok();
        good = good && HitFault(FaultPoint::kPoolConnected, 0).ok();
        // The second pool of the process: visits go on.
        good = good && ArmFaultsFromEnvironment(With("pool.connected=fail(nth=2)")).ok();
        good = good && !HitFault(FaultPoint::kPoolConnected, 0).ok();
        good = good &&
               ArmFaultsFromEnvironment(With("")).code() == absl::StatusCode::kFailedPrecondition;
        std::exit(good ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(FaultTest, ABadVariableIsNamed) {
  const absl::Status status = ArmFaultsFromEnvironment(With("nowhere=fail"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("MUSTER_FAULTS: faults \"nowhere=fail\": unknown fault point"));
}

}  // namespace
}  // namespace muster

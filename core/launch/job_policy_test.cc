#include "muster/core/launch/job_policy.h"

#include <signal.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/rank_exit.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Text(const JobAction& action) {
  if (action.kind == JobAction::Kind::kSignal) {
    return absl::StrCat(SignalName(action.signal), " to ", action.rank);
  }
  return absl::StrCat(action.rank, " lost: ", action.reason);
}

std::vector<std::string> Texts(const JobPolicy::Actions& actions) {
  std::vector<std::string> texts;
  for (const JobAction& action : actions) texts.push_back(Text(action));
  return texts;
}

class JobPolicyTest : public ::testing::Test {
 protected:
  static absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

  static JobPolicy Job(int ranks, JobLimits limits = {}) {
    std::vector<pid_t> pids;
    for (int rank = 0; rank < ranks; ++rank) pids.push_back(100 + rank);
    return JobPolicy(pids, limits, At(0));
  }

  static JobPolicy::Actions End(JobPolicy& job, int rank, RankExit exit, double at) {
    return job.RankEnded(rank, exit, exit.ok(), At(at));
  }
};

TEST_F(JobPolicyTest, AllRanksEndingWellIsSuccess) {
  JobPolicy job = Job(2);
  EXPECT_EQ(job.NextDeadline(), absl::InfiniteFuture());
  EXPECT_THAT(Texts(End(job, 1, RankExit::Exited(0), 1)),
              ElementsAre("1 lost: exited with code 0"));
  EXPECT_FALSE(job.Done());
  EXPECT_EQ(job.NextDeadline(), absl::InfiniteFuture());
  EXPECT_THAT(Texts(End(job, 0, RankExit::Exited(0), 5)),
              ElementsAre("0 lost: exited with code 0"));
  EXPECT_TRUE(job.Done());
  const JobResult result = job.Result(At(5));
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.ExitCode(), 0);
  EXPECT_THAT(result.Report(), IsEmpty());
  EXPECT_EQ(result.ranks[1].ended_after, absl::Seconds(1));
}

TEST_F(JobPolicyTest, TheStoreLearnsAtOnceWhyARankEnded) {
  JobPolicy job = Job(3);
  EXPECT_THAT(Texts(End(job, 1, RankExit::Killed(SIGKILL), 1)),
              ElementsAre("1 lost: killed by signal 9"));
  EXPECT_THAT(Texts(End(job, 2, RankExit::Exited(3), 1)),
              ElementsAre("2 lost: exited with code 3"));
}

TEST_F(JobPolicyTest, TheOthersMayFailByThemselvesThenGetSigtermThenSigkill) {
  JobPolicy job = Job(3);
  End(job, 1, RankExit::Killed(SIGKILL), 10);
  EXPECT_EQ(job.NextDeadline(), At(11.5));
  EXPECT_THAT(job.TimePassed(At(11.4)), IsEmpty());
  EXPECT_THAT(Texts(job.TimePassed(At(11.5))), ElementsAre("SIGTERM to 0", "SIGTERM to 2"));
  End(job, 0, RankExit::Killed(SIGTERM), 11.6);
  EXPECT_EQ(job.NextDeadline(), At(12));
  EXPECT_THAT(Texts(job.TimePassed(At(12))), ElementsAre("SIGKILL to 2"));
  End(job, 2, RankExit::Killed(SIGKILL), 12.1);
  ASSERT_TRUE(job.Done());
  const JobResult result = job.Result(At(12.1));
  EXPECT_EQ(result.ExitCode(), 137);
  EXPECT_THAT(result.Report(),
              ElementsAre("FAILED after 12.1 s: rank 1 (pid 101) failed first: killed by signal 9 "
                          "(after 10.0 s)",
                          "consequences of it: rank 0 ended by muster (SIGTERM), rank 2 ended by "
                          "muster (SIGKILL)"));
}

TEST_F(JobPolicyTest, TheFirstFailingRanksCodeIsTheJobs) {
  JobPolicy job = Job(2);
  End(job, 1, RankExit::Exited(7), 1);
  End(job, 0, RankExit::Exited(9), 1.1);
  const JobResult result = job.Result(At(1.1));
  EXPECT_EQ(result.ExitCode(), 7);
  EXPECT_THAT(result.Report(),
              ElementsAre("FAILED after 1.1 s: rank 1 (pid 101) failed first: exited with code 7 "
                          "(after 1.0 s)",
                          "then: rank 0 exited with code 9"));
}

TEST_F(JobPolicyTest, ALaterFailureNeitherMovesTheEndNorTheBlame) {
  JobPolicy job = Job(3);
  End(job, 0, RankExit::Exited(1), 1);
  End(job, 2, RankExit::Killed(SIGSEGV), 2);
  EXPECT_EQ(job.NextDeadline(), At(2.5));
  EXPECT_EQ(job.Result(At(2)).first_failed, 0);
}

TEST_F(JobPolicyTest, ARankThatTheStoreLostAndThatStaysIsTheFirstFailureAndIsEnded) {
  JobPolicy job = Job(2);
  job.SessionChanged(1, "no heartbeat for 10 s", At(5));
  EXPECT_EQ(job.NextDeadline(), At(6));
  EXPECT_THAT(job.TimePassed(At(6)), IsEmpty());
  EXPECT_THAT(Texts(job.TimePassed(At(7.5))), ElementsAre("SIGTERM to 0", "SIGTERM to 1"));
  EXPECT_THAT(Texts(job.TimePassed(At(8))), ElementsAre("SIGKILL to 0", "SIGKILL to 1"));
  End(job, 0, RankExit::Killed(SIGKILL), 8);
  End(job, 1, RankExit::Killed(SIGKILL), 8);
  const JobResult result = job.Result(At(8));
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.first_reason, "no heartbeat for 10 s");
  EXPECT_EQ(result.ExitCode(), 137);
}

// As a program that executes itself: L8.
TEST_F(JobPolicyTest, ALostRankThatComesAgainIsNoFailure) {
  JobPolicy job = Job(2);
  job.SessionChanged(1, "its connection closed", At(5));
  job.SessionChanged(1, std::nullopt, At(5.9));
  EXPECT_EQ(job.NextDeadline(), absl::InfiniteFuture());
  EXPECT_THAT(job.TimePassed(At(60)), IsEmpty());
  End(job, 0, RankExit::Exited(1), 61);
  EXPECT_EQ(job.Result(At(61)).first_failed, 0);
  // The failure of a rank that ran to its end is no reason to end the others.
  JobPolicy calm = Job(2);
  calm.RankEnded(0, RankExit::Exited(1), /*in_order=*/true, At(1));
  calm.SessionChanged(1, "its connection closed", At(2));
  calm.SessionChanged(1, std::nullopt, At(2.5));
  EXPECT_EQ(calm.NextDeadline(), absl::InfiniteFuture());
  // What was decided stays.
  JobPolicy late = Job(2);
  late.SessionChanged(1, "its connection closed", At(5));
  late.TimePassed(At(6));
  late.SessionChanged(1, std::nullopt, At(6.1));
  EXPECT_EQ(late.Result(At(7)).first_failed, 1);
}

TEST_F(JobPolicyTest, WhoFailsOfALostRankIsNotToBlame) {
  JobPolicy job = Job(2);
  job.SessionChanged(1, "no heartbeat for 10 s", At(5));
  End(job, 0, RankExit::Exited(1), 5.2);
  EXPECT_EQ(job.Result(At(6)).first_failed, 1);
  job.TimePassed(At(6.7));
  EXPECT_THAT(Texts(job.TimePassed(At(7.2))), ElementsAre("SIGKILL to 1"));
  End(job, 1, RankExit::Killed(SIGKILL), 7.2);
  EXPECT_EQ(job.Result(At(8)).first_reason, "no heartbeat for 10 s");
}

TEST_F(JobPolicyTest, AnExitStatusSaysMoreThanTheStoresLoss) {
  JobPolicy job = Job(3);
  job.SessionChanged(1, "its connection closed", At(5));
  End(job, 0, RankExit::Exited(1), 5.001);
  End(job, 1, RankExit::Killed(SIGSEGV), 5.002);
  EXPECT_EQ(job.Result(At(6)).first_failed, 1);
  EXPECT_EQ(job.Result(At(6)).first_reason, "killed by signal 11");
}

TEST_F(JobPolicyTest, ARankThatEndsWellWithoutAGoodbyeToItsStoreIsNoFailure) {
  JobPolicy job = Job(2);
  job.SessionChanged(0, "its connection closed", At(5));
  End(job, 0, RankExit::Exited(0), 5.1);
  EXPECT_EQ(job.NextDeadline(), absl::InfiniteFuture());
  End(job, 1, RankExit::Exited(0), 9);
  EXPECT_TRUE(job.Result(At(9)).ok());
}

TEST_F(JobPolicyTest, OneLostRankThatEndsWellDoesNotHideAnother) {
  JobPolicy job = Job(3);
  job.SessionChanged(0, "its connection closed", At(5));
  job.SessionChanged(1, "no heartbeat for 2s", At(5.1));
  End(job, 0, RankExit::Exited(0), 5.2);
  End(job, 2, RankExit::Exited(1), 5.3);
  EXPECT_EQ(job.Result(At(6)).first_failed, 1);
  EXPECT_EQ(job.Result(At(6)).first_reason, "no heartbeat for 2s");
}

TEST_F(JobPolicyTest, ALostRankThatEndsWellTooLateIsAFailureAllTheSame) {
  JobPolicy job = Job(1);
  job.SessionChanged(0, "no heartbeat for 10 s", At(5));
  job.TimePassed(At(6));
  End(job, 0, RankExit::Exited(0), 6.1);
  EXPECT_EQ(job.Result(At(7)).ExitCode(), 1);
}

TEST_F(JobPolicyTest, NewsOfRanksThatHaveEndedOrDoNotExistIsNoNews) {
  JobPolicy job = Job(2);
  End(job, 1, RankExit::Exited(0), 1);
  job.SessionChanged(1, "its connection closed", At(1.1));
  job.SessionChanged(7, "?", At(1.1));
  job.SessionChanged(-1, "?", At(1.1));
  EXPECT_TRUE(job.Result(At(2)).ok());
}

TEST_F(JobPolicyTest, TheFirstSignalIsForwardedTheSecondKills) {
  JobPolicy job = Job(2);
  EXPECT_THAT(Texts(job.Interrupted(SIGINT, At(1))), ElementsAre("SIGINT to 0", "SIGINT to 1"));
  EXPECT_EQ(job.NextDeadline(), At(11));
  EXPECT_THAT(Texts(job.Interrupted(SIGTERM, At(2))), ElementsAre("SIGKILL to 0", "SIGKILL to 1"));
  End(job, 0, RankExit::Killed(SIGKILL), 2);
  End(job, 1, RankExit::Exited(0), 2);
  const JobResult result = job.Result(At(2));
  EXPECT_EQ(result.ExitCode(), 130);
  EXPECT_THAT(result.Report(),
              ElementsAre("stopped by SIGINT after 2.0 s: rank 0 ended by muster (SIGKILL)"));
}

TEST_F(JobPolicyTest, TheSameSignalAgainAtOnceIsTheSameRequest) {
  JobPolicy job = Job(1);
  job.Interrupted(SIGTERM, At(1));
  EXPECT_THAT(job.Interrupted(SIGTERM, At(1)), IsEmpty());
  EXPECT_THAT(job.Interrupted(SIGTERM, At(1.4)), IsEmpty());
  EXPECT_EQ(job.NextDeadline(), At(11));
  EXPECT_THAT(Texts(job.Interrupted(SIGTERM, At(1.5))), ElementsAre("SIGKILL to 0"));
}

TEST_F(JobPolicyTest, AnotherSignalAtOnceIsASecondRequest) {
  JobPolicy job = Job(1);
  job.Interrupted(SIGTERM, At(1));
  EXPECT_THAT(Texts(job.Interrupted(SIGINT, At(1))), ElementsAre("SIGKILL to 0"));
}

TEST_F(JobPolicyTest, AnOutputThatBreaksEndsTheJobAndIsTheCause) {
  JobPolicy job = Job(2);
  EXPECT_THAT(Texts(job.OutputBroke(ENOSPC, At(1))), ElementsAre("SIGTERM to 0", "SIGTERM to 1"));
  EXPECT_EQ(job.NextDeadline(), At(11));
  End(job, 0, RankExit::Killed(SIGTERM), 2);
  End(job, 1, RankExit::Exited(0), 2);
  const JobResult result = job.Result(At(2));
  EXPECT_EQ(result.ExitCode(), 1);
  EXPECT_THAT(result.Report(),
              ElementsAre("FAILED after 2.0 s: cannot write the job's output: No space left on "
                          "device",
                          "consequences of it: rank 0 ended by muster (SIGTERM)"));
}

TEST_F(JobPolicyTest, AReaderThatIsGoneIsASigpipe) {
  JobPolicy job = Job(1);
  EXPECT_THAT(Texts(job.OutputBroke(EPIPE, At(1))), ElementsAre("SIGPIPE to 0"));
  End(job, 0, RankExit::Killed(SIGPIPE), 2);
  EXPECT_EQ(job.Result(At(2)).ExitCode(), 128 + SIGPIPE);
}

// Ctrl-C ends the whole pipeline, and a terminal that goes away sends SIGHUP: in either order.
TEST_F(JobPolicyTest, AnOutputThatBreaksWithASignalTakesNoTimeFromTheLastCheckpoint) {
  JobPolicy interrupted = Job(1);
  interrupted.Interrupted(SIGINT, At(1));
  EXPECT_THAT(interrupted.OutputBroke(EPIPE, At(1.1)), IsEmpty());
  EXPECT_EQ(interrupted.NextDeadline(), At(11));
  EXPECT_EQ(interrupted.Result(At(2)).interrupted_by, SIGINT);

  JobPolicy hung_up = Job(1);
  hung_up.OutputBroke(EIO, At(1));
  EXPECT_THAT(hung_up.Interrupted(SIGHUP, At(1.1)), IsEmpty());
  EXPECT_EQ(hung_up.NextDeadline(), At(11));
  EXPECT_THAT(Texts(hung_up.Interrupted(SIGTERM, At(2))), ElementsAre("SIGKILL to 0"));
}

TEST_F(JobPolicyTest, RanksThatEndWellAfterASignalStillGiveItsCode) {
  JobPolicy job = Job(1);
  job.Interrupted(SIGTERM, At(1));
  End(job, 0, RankExit::Exited(0), 2);
  EXPECT_EQ(job.Result(At(2)).ExitCode(), 143);
}

TEST_F(JobPolicyTest, ASecondSignalKillsWithoutBoundToo) {
  JobLimits limits;
  limits.interrupt_grace = absl::InfiniteDuration();
  JobPolicy job = Job(1, limits);
  job.Interrupted(SIGTERM, At(1));
  EXPECT_EQ(job.NextDeadline(), absl::InfiniteFuture());
  EXPECT_THAT(Texts(job.Interrupted(SIGTERM, At(2))), ElementsAre("SIGKILL to 0"));
}

TEST_F(JobPolicyTest, ARankThatEndsOfTheForwardedSignalTakesNoTimeFromTheOthersCheckpoint) {
  JobPolicy job = Job(3);
  job.Interrupted(SIGINT, At(1));
  EXPECT_THAT(Texts(End(job, 0, RankExit::Killed(SIGINT), 1.1)),
              ElementsAre("0 lost: killed by signal 2"));
  EXPECT_THAT(Texts(End(job, 1, RankExit::Exited(1), 1.2)),
              ElementsAre("1 lost: exited with code 1"));
  job.SessionChanged(2, "no heartbeat for 2 s", At(4));
  job.TimePassed(At(5));
  EXPECT_EQ(job.NextDeadline(), At(11));
  EXPECT_EQ(job.Result(At(2)).first_failed, std::nullopt);
  EXPECT_THAT(Texts(job.TimePassed(At(11))), ElementsAre("SIGKILL to 2"));
}

TEST_F(JobPolicyTest, TheTimeoutEndsTheGraceOfAForwardedSignal) {
  JobLimits limits;
  limits.timeout = absl::Seconds(3);
  limits.interrupt_grace = absl::InfiniteDuration();
  JobPolicy job = Job(1, limits);
  job.Interrupted(SIGTERM, At(1));
  job.TimePassed(At(3));
  EXPECT_EQ(job.NextDeadline(), At(5));
  EXPECT_EQ(job.Result(At(4)).interrupted_by, SIGTERM);
}

TEST_F(JobPolicyTest, ASignalAfterAFailureKillsAndKeepsTheBlame) {
  JobPolicy job = Job(2);
  End(job, 1, RankExit::Exited(3), 1);
  EXPECT_THAT(Texts(job.Interrupted(SIGINT, At(1.1))), ElementsAre("SIGKILL to 0"));
  End(job, 0, RankExit::Killed(SIGKILL), 1.2);
  EXPECT_EQ(job.Result(At(2)).ExitCode(), 3);
}

TEST_F(JobPolicyTest, TheTimeoutNamesTheRanksThatStillRan) {
  JobLimits limits;
  limits.timeout = absl::Seconds(30);
  JobPolicy job = Job(3, limits);
  End(job, 1, RankExit::Exited(0), 1);
  EXPECT_EQ(job.NextDeadline(), At(30));
  EXPECT_THAT(Texts(job.TimePassed(At(30))), ElementsAre("SIGTERM to 0", "SIGTERM to 2"));
  End(job, 0, RankExit::Killed(SIGTERM), 30);
  EXPECT_THAT(Texts(job.TimePassed(At(32))), ElementsAre("SIGKILL to 2"));
  End(job, 2, RankExit::Killed(SIGKILL), 32);
  const JobResult result = job.Result(At(32));
  EXPECT_EQ(result.ExitCode(), 124);
  EXPECT_THAT(result.Report(),
              ElementsAre("FAILED after 32.0 s: the timeout passed while ranks 0, 2 still ran",
                          "rank 0 ended by muster (SIGTERM), rank 2 ended by muster (SIGKILL)"));
}

TEST_F(JobPolicyTest, AFailureInOrderLetsTheOthersFinish) {
  JobPolicy job = Job(2);
  EXPECT_THAT(Texts(job.RankEnded(1, RankExit::Exited(1), /*in_order=*/true, At(1))),
              ElementsAre("1 lost: exited with code 1"));
  EXPECT_EQ(job.NextDeadline(), absl::InfiniteFuture());
  // A crash after it still ends the rest.
  JobPolicy other = Job(3);
  other.RankEnded(1, RankExit::Exited(1), /*in_order=*/true, At(1));
  End(other, 0, RankExit::Killed(SIGSEGV), 2);
  EXPECT_EQ(other.NextDeadline(), At(3.5));
  EXPECT_EQ(other.Result(At(3)).first_failed, 1);
}

TEST_F(JobPolicyTest, AFailureInOrderGivesTheOthersABoundedTime) {
  JobLimits limits;
  limits.straggler_grace = absl::Seconds(10);
  limits.timeout = absl::Seconds(60);
  JobPolicy job = Job(3, limits);
  job.RankEnded(0, RankExit::Exited(0), /*in_order=*/true, At(1));
  EXPECT_EQ(job.NextDeadline(), At(60));  // that went well bounds nobody
  job.RankEnded(1, RankExit::Exited(1), /*in_order=*/true, At(20));
  EXPECT_EQ(job.NextDeadline(), At(30));
  EXPECT_THAT(job.TimePassed(At(30)), IsEmpty());
  EXPECT_THAT(Texts(job.TimePassed(At(31.5))), ElementsAre("SIGTERM to 2"));
  End(job, 2, RankExit::Killed(SIGTERM), 31.5);
  ASSERT_TRUE(job.Done());
  const JobResult result = job.Result(At(31.5));
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_THAT(result.stragglers, ElementsAre(2));
  EXPECT_THAT(result.running_at_timeout, IsEmpty());
}

TEST_F(JobPolicyTest, ATimeoutThatEndsTheJobIsToldAlsoAfterAFailureInOrder) {
  JobLimits limits;
  limits.timeout = absl::Seconds(30);
  JobPolicy job = Job(2, limits);
  job.RankEnded(1, RankExit::Exited(1), /*in_order=*/true, At(1));
  EXPECT_THAT(Texts(job.TimePassed(At(30))), ElementsAre("SIGTERM to 0"));
  End(job, 0, RankExit::Killed(SIGTERM), 30);
  JobResult result = job.Result(At(30));
  EXPECT_THAT(result.running_at_timeout, ElementsAre(0));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.ExitCode(), 1);
  // One that comes while the job ends already is no news.
  JobPolicy ending = Job(2, limits);
  End(ending, 1, RankExit::Exited(1), 29);
  ending.TimePassed(At(30));
  EXPECT_THAT(ending.Result(At(30)).running_at_timeout, IsEmpty());
}

TEST_F(JobPolicyTest, CodeZeroBeforeARankIsDoneIsAFailureThatEndsTheOthers) {
  JobPolicy job = Job(2);
  EXPECT_THAT(Texts(job.RankEnded(1, RankExit::Exited(0), /*in_order=*/false, At(1))),
              ElementsAre("1 lost: exited with code 0"));
  EXPECT_THAT(Texts(job.TimePassed(At(2.5))), ElementsAre("SIGTERM to 0"));
  End(job, 0, RankExit::Killed(SIGTERM), 2.5);
  const JobResult result = job.Result(At(2.5));
  EXPECT_EQ(result.ExitCode(), 1);
  EXPECT_EQ(result.Report()[0],
            "FAILED after 2.5 s: rank 1 (pid 101) failed first: exited with code 0 before it was "
            "done (after 1.0 s)");
}

TEST_F(JobPolicyTest, TheFirstOfSeveralLostRanksIsBlamedWithItsExitStatus) {
  JobPolicy job = Job(2);
  job.SessionChanged(1, "its connection closed", At(5));
  job.SessionChanged(0, "its connection closed", At(5.1));
  End(job, 1, RankExit::Killed(SIGSEGV), 5.2);
  End(job, 0, RankExit::Exited(1), 5.3);
  EXPECT_EQ(job.Result(At(6)).first_failed, 1);
  EXPECT_EQ(job.Result(At(6)).first_reason, "killed by signal 11");
}

TEST_F(JobPolicyTest, GivesUpOnAProcessThatSurvivesSigkill) {
  JobPolicy job = Job(2);
  End(job, 1, RankExit::Exited(3), 0);
  job.TimePassed(At(1.5));
  job.TimePassed(At(2));
  EXPECT_EQ(job.NextDeadline(), At(7));
  EXPECT_FALSE(job.Done());
  EXPECT_THAT(job.TimePassed(At(7)), IsEmpty());
  EXPECT_TRUE(job.Done());
  EXPECT_THAT(
      job.Result(At(7)).Report(),
      ElementsAre(
          "FAILED after 7.0 s: rank 1 (pid 101) failed first: exited with code 3 (after 0.0 s)",
          "consequences of it: rank 0 is stuck in the kernel and survives SIGKILL"));
}

}  // namespace
}  // namespace muster

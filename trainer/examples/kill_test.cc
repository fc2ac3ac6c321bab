// What becomes of a training job when one of its ranks dies, stops, fails or throws in the middle
// of it, or the user presses Ctrl-C: the others know within a second who it was and why, the job
// ends within three, and nothing is left of it. These are bounds of a machine with a processor for
// it: on one that has none for the launcher, a peer's broken connection may be all that is known
// when the time for a better cause has passed.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/unless_starved.h"
#include "muster/trainer/examples/example_job.h"
#include "muster/trainer/examples/idx_writer.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

constexpr int kRanks = 3;

absl::Duration Scaled(absl::Duration duration) { return TimeoutScale() * duration; }

// From a rank's failure to the last peer's error, and to the end of the job.
absl::Duration KnownBound() { return Scaled(absl::Seconds(1)); }
absl::Duration EndBound() { return Scaled(absl::Seconds(3)); }
// For what is not measured: beyond any bound, so that a late answer is told from none.
absl::Duration Patience() { return Scaled(absl::Seconds(30)); }

class KillTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    mkdir(DataFolder().c_str(), 0755);
    WriteImageFiles(DataFolder(), 480, 60);
  }
  static std::string DataFolder() { return absl::StrCat(::testing::TempDir(), "/images"); }

  // All of a test; in a place of its own each time.
  void RunUnlessStarved(const std::function<void()>& scenario) {
    testing::UnlessStarved([&] {
      job_.reset();
      place_.reset();
      place_.emplace();
      scenario();
    });
    job_.reset();
  }

  // A job that would train for hours, after its first epoch.
  void Train(std::vector<std::string> more, const ExampleJob::Variables& variables = {}) {
    who_ = "fashion_mnist";
    std::vector<std::string> command = {
        ProgramFile("trainer/examples/fashion_mnist"), absl::StrCat("--data=", DataFolder()),
        absl::StrCat("--ranks=", kRanks), "--epochs=1000000", "--batch_size=16"};
    command.insert(command.end(), more.begin(), more.end());
    job_ = std::make_unique<ExampleJob>(*place_, command, variables);
    ASSERT_TRUE(job_->WaitForLine({"fit 1/1000000: loss"}, Patience()).has_value())
        << job_->Transcript();
  }

  // Every rank but `failed` says that it failed, and why: in a line that holds all of `cause`.
  void ExpectTheOthersKnow(int failed, absl::Time since, absl::Duration bound,
                           const std::vector<std::string>& cause) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == failed) continue;
      std::vector<std::string> parts = cause;
      parts.push_back(absl::StrCat(who_, ", rank ", rank, ": "));
      const std::optional<OutputLine> line = job_->WaitForLine(parts, Patience());
      ASSERT_TRUE(line.has_value())
          << "rank " << rank << " does not say that " << cause[0] << job_->Transcript();
      EXPECT_LE(line->at - since, bound) << "rank " << rank << job_->Transcript();
    }
  }

  // The job ends with one of `codes`, and nothing is left.
  void ExpectTheEnd(const std::vector<int>& codes, absl::Time since, absl::Duration bound) {
    const std::optional<int> code = job_->WaitForEnd(Patience());
    ASSERT_TRUE(code.has_value()) << "the job goes on" << job_->Transcript();
    EXPECT_THAT(codes, Contains(*code)) << job_->Transcript();
    EXPECT_LE(MonotonicNow() - since, bound) << job_->Transcript();
    EXPECT_THAT(place_->Left(), IsEmpty()) << job_->Transcript();
  }

  // "rank 1 (host a, pid 812) was lost: <how>", in its parts.
  std::vector<std::string> Lost(int rank, const std::string& how) const {
    return {absl::StrCat("rank ", rank, " (host "),
            absl::StrCat(", pid ", ranks_.at(rank), ") was lost: ", how)};
  }

  // What the launcher says at the end.
  void ExpectBlame(int rank, const std::string& how) {
    EXPECT_TRUE(job_->WaitForLine({"[muster] FAILED after ",
                                   absl::StrCat("rank ", rank, " (pid ", ranks_.at(rank),
                                                ") failed first: ", how)},
                                  absl::ZeroDuration())
                    .has_value())
        << job_->Transcript();
  }

  std::optional<JobPlace> place_;
  std::string who_;  // the program, in its own messages
  std::unique_ptr<ExampleJob> job_;
  std::map<int, pid_t> ranks_;  // where a test asked for them
};

class KillByBackendTest : public KillTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void TrainOnBackend(std::vector<std::string> more = {}) {
    more.push_back(absl::StrCat("--backend=", GetParam()));
    ASSERT_NO_FATAL_FAILURE(Train(std::move(more)));
    ranks_ = job_->RankPids();
    ASSERT_EQ(ranks_.size(), static_cast<size_t>(kRanks)) << job_->Transcript();
  }
};

// "auto" is what users have: gloo where it is linked in.
INSTANTIATE_TEST_SUITE_P(Backends, KillByBackendTest, ::testing::Values("auto", "reference"));

TEST_P(KillByBackendTest, ARankThatIsKilledIsKnownToAllWithinASecondAndTheJobEndsWithinThree) {
  RunUnlessStarved([this] {
    for (const int victim : {1, 0}) {
      SCOPED_TRACE(absl::StrCat("rank ", victim));
      ASSERT_NO_FATAL_FAILURE(TrainOnBackend());
      const absl::Time since = MonotonicNow();
      ASSERT_EQ(kill(ranks_[victim], SIGKILL), 0);
      ASSERT_NO_FATAL_FAILURE(
          ExpectTheOthersKnow(victim, since, KnownBound(), Lost(victim, "killed by signal 9")));
      ExpectTheEnd({128 + SIGKILL}, since, EndBound());
      ExpectBlame(victim, "killed by signal 9");
    }
  });
}

TEST_P(KillByBackendTest, ARankThatIsStoppedIsKnownToAllWithinTheHeartbeatTimeout) {
  RunUnlessStarved([this] {
    const absl::Duration heartbeat = Scaled(absl::Seconds(2));
    ASSERT_NO_FATAL_FAILURE(
        TrainOnBackend({absl::StrCat("--heartbeat_timeout=", absl::FormatDuration(heartbeat))}));
    const absl::Time since = MonotonicNow();
    ASSERT_EQ(kill(ranks_[1], SIGSTOP), 0);
    // Silence is looked at each tenth of the timeout.
    const absl::Duration detection = heartbeat * 1.2;
    const std::string how = absl::StrCat("no heartbeat for ", absl::FormatDuration(heartbeat));
    ASSERT_NO_FATAL_FAILURE(ExpectTheOthersKnow(1, since, detection + KnownBound(), Lost(1, how)));
    ExpectTheEnd({128 + SIGKILL}, since, detection + EndBound());
    ExpectBlame(1, how);
  });
}

TEST_F(KillTest, AnErrorInTrainingIsTheCauseOnEveryRank) {
  RunUnlessStarved([this] {
    ASSERT_NO_FATAL_FAILURE(
        Train({}, {{"MUSTER_FAULTS",
                    "group.operation=fail(message=\"the gradients are gone\",rank=1,nth=300)"}}));
    const std::optional<OutputLine> own =
        job_->WaitForLine({"fashion_mnist, rank 1: ", "the gradients are gone"}, Patience());
    ASSERT_TRUE(own.has_value()) << job_->Transcript();
    ASSERT_NO_FATAL_FAILURE(
        ExpectTheOthersKnow(1, own->at, KnownBound(), {"the gradients are gone", "rank 1"}));
    ExpectTheEnd({1}, own->at, EndBound());
  });
}

// Failures of a rank's own code, which the example has none of.
class OwnCodeTest : public KillTest {
 protected:
  // A job whose rank 1 does `how` in the middle of training.
  void TrainUntilIt(const std::string& how) {
    who_ = "faulty_rank";
    job_ = std::make_unique<ExampleJob>(
        *place_, std::vector<std::string>{ProgramFile("tools/muster/muster"), "run", "-n",
                                          absl::StrCat(kRanks), "--",
                                          ProgramFile("trainer/examples/faulty_rank"), how});
    ASSERT_TRUE(job_->WaitForLine({"fit 1/1000000: loss"}, Patience()).has_value())
        << job_->Transcript();
  }
};

TEST_F(OwnCodeTest, AnExceptionThatIsCaughtAfterTheTrainerIsTheCauseOnEveryRank) {
  RunUnlessStarved([this] {
    ASSERT_NO_FATAL_FAILURE(TrainUntilIt("throw"));
    const std::optional<OutputLine> own =
        job_->WaitForLine({"faulty_rank, rank 1: the disk is on fire"}, Patience());
    ASSERT_TRUE(own.has_value()) << job_->Transcript();
    ASSERT_NO_FATAL_FAILURE(ExpectTheOthersKnow(
        1, own->at, KnownBound(), {"rank 1 left: \"an exception left fit: the disk is on fire\""}));
    ExpectTheEnd({1}, own->at, EndBound());
  });
}

TEST_F(OwnCodeTest, AnExceptionThatNobodyCatchesIsKnownByTheSignalThatItEndsIn) {
  RunUnlessStarved([this] {
    ASSERT_NO_FATAL_FAILURE(TrainUntilIt("throw_uncaught"));
    const std::optional<OutputLine> own = job_->WaitForLine({"the disk is on fire"}, Patience());
    ASSERT_TRUE(own.has_value()) << job_->Transcript();
    ASSERT_NO_FATAL_FAILURE(ExpectTheOthersKnow(
        1, own->at, KnownBound(), {"rank 1 (host ", ") was lost: killed by signal 6"}));
    ExpectTheEnd({128 + SIGABRT}, own->at, EndBound());
  });
}

TEST_F(OwnCodeTest, ARankThatExitsIsNamedByTheOthers) {
  RunUnlessStarved([this] {
    ASSERT_NO_FATAL_FAILURE(TrainUntilIt("exit"));
    const std::optional<OutputLine> own = job_->WaitForLine({"enough of it"}, Patience());
    ASSERT_TRUE(own.has_value()) << job_->Transcript();
    ASSERT_NO_FATAL_FAILURE(ExpectTheOthersKnow(
        1, own->at, KnownBound(), {"rank 1 (host ", ") exited while its groups were alive"}));
    // Its own code, or that of a rank that knew it before the process was gone.
    ExpectTheEnd({7, 1}, own->at, EndBound());
  });
}

TEST_F(OwnCodeTest, ARankThatEndsWithCodeZeroInTheMiddleIsNamedByTheOthers) {
  RunUnlessStarved([this] {
    ASSERT_NO_FATAL_FAILURE(TrainUntilIt("vanish"));
    const std::optional<OutputLine> own = job_->WaitForLine({"enough of it"}, Patience());
    ASSERT_TRUE(own.has_value()) << job_->Transcript();
    ASSERT_NO_FATAL_FAILURE(ExpectTheOthersKnow(
        1, own->at, KnownBound(), {"rank 1 (host ", ") was lost: exited with code 0"}));
    ExpectTheEnd({1}, own->at, EndBound());
    EXPECT_TRUE(job_->WaitForLine({"[muster] FAILED after ", "rank 1 (pid ",
                                   ") failed first: exited with code 0 while its group "},
                                  absl::ZeroDuration())
                    .has_value())
        << job_->Transcript();
  });
}

TEST_F(KillTest, CtrlCOnTheLauncherEndsEveryRank) {
  RunUnlessStarved([this] {
    // To the program alone, as kill does, and to its whole group, as a terminal does.
    for (const bool group : {false, true}) {
      SCOPED_TRACE(group ? "to the group" : "to the program");
      ASSERT_NO_FATAL_FAILURE(Train({}));
      const absl::Time since = MonotonicNow();
      ASSERT_EQ(kill(group ? -job_->pid() : job_->pid(), SIGINT), 0);
      ExpectTheEnd({128 + SIGINT}, since, EndBound());
      EXPECT_TRUE(
          job_->WaitForLine({"[muster] stopped by SIGINT"}, absl::ZeroDuration()).has_value())
          << job_->Transcript();
    }
  });
}

}  // namespace
}  // namespace muster

#include "muster/tools/bench/peer_subject.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A shell as the peer. $in and $out are its FIFOs.
absl::StatusOr<std::unique_ptr<PeerSubject>> StartShell(
    const std::string& script, absl::Duration step_timeout = absl::Seconds(20)) {
  static int count = 0;
  PeerSubject::Setup setup;
  setup.name = "shell";
  setup.prefix = absl::StrCat(::testing::TempDir(), "/peer", getpid(), ".", ++count);
  setup.rank = 3;
  setup.command = {
      "sh", "-c",
      absl::StrCat("in='", setup.prefix, ".3.in' out='", setup.prefix, ".3.out'; ", script)};
  setup.environment = Environment::OfProcess();
  setup.step_timeout = TimeoutScale() * step_timeout;
  absl::Status made = MakePeerFifos(setup.prefix, 4);
  if (!made.ok()) return made;
  return PeerSubject::Start(setup);
}

constexpr char kGood[] =
    "exec 3<$in 4>$out; echo ok 0 >&4; while read -r line <&3; do case $line in "
    "cycle) echo ok 1500 >&4;; open|close) echo ok 0 >&4;; 'all_reduce 1024 8') echo ok 250 >&4;; "
    "*) echo error what is $line >&4;; esac; done";
constexpr absl::Duration kReady = absl::Seconds(20);

TEST(PeerSubjectTest, ItsAnswersAreItsTimes) {
  const auto peer = StartShell(kGood);
  ASSERT_TRUE(peer.ok()) << peer.status();
  ASSERT_EQ((*peer)->WaitUntilReady(TimeoutScale() * kReady), absl::OkStatus());
  EXPECT_EQ(*(*peer)->CreateAndDestroy(), absl::Nanoseconds(1500));
  EXPECT_EQ((*peer)->Open(), absl::OkStatus());
  EXPECT_EQ(*(*peer)->AllReduce(1024, 8), absl::Nanoseconds(250));
  EXPECT_EQ((*peer)->Close(), absl::OkStatus());
}

TEST(PeerSubjectTest, ItsErrorIsOursWithWhatWasAsked) {
  const auto peer = StartShell(kGood);
  ASSERT_TRUE(peer.ok()) << peer.status();
  ASSERT_EQ((*peer)->WaitUntilReady(TimeoutScale() * kReady), absl::OkStatus());
  EXPECT_EQ((*peer)->AllReduce(7, 1).status().message(),
            "shell failed at all_reduce 7 1: what is all_reduce 7 1");
}

TEST(PeerSubjectTest, OneThatEndsBeforeItIsReadyIsSeenAtOnce) {
  const auto peer = StartShell("exit 7");
  ASSERT_TRUE(peer.ok()) << peer.status();
  const absl::Time begin = MonotonicNow();
  const absl::Status status = (*peer)->WaitUntilReady(absl::Minutes(10));
  EXPECT_EQ(status.message(), "shell ended in its start (exited with code 7)");
  EXPECT_LT(MonotonicNow() - begin, absl::Minutes(1));
}

TEST(PeerSubjectTest, OneThatDiesInACommandIsSeenAtOnce) {
  const auto peer = StartShell("exec 3<$in 4>$out; echo ok 0 >&4; read -r line <&3; kill -9 $$");
  ASSERT_TRUE(peer.ok()) << peer.status();
  ASSERT_EQ((*peer)->WaitUntilReady(TimeoutScale() * kReady), absl::OkStatus());
  EXPECT_THAT((*peer)->CreateAndDestroy().status().message(), HasSubstr("shell ended in cycle"));
  // And nothing later waits or raises a signal.
  EXPECT_FALSE((*peer)->CreateAndDestroy().ok());
}

TEST(PeerSubjectTest, OneThatDoesNotAnswerIsWaitedForWithinTheBound) {
  const auto peer =
      StartShell("exec 3<$in 4>$out; echo ok 0 >&4; while read -r line <&3; do :; done",
                 absl::Milliseconds(100));
  ASSERT_TRUE(peer.ok()) << peer.status();
  ASSERT_EQ((*peer)->WaitUntilReady(TimeoutScale() * kReady), absl::OkStatus());
  const absl::Status status = (*peer)->Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "shell did not answer in time to open");
}

TEST(PeerSubjectTest, TheProcessEndsWithItsSubject) {
  const std::string pid_file = absl::StrCat(::testing::TempDir(), "/pid", getpid());
  auto peer = StartShell(absl::StrCat("echo $$ >'", pid_file, "'; ", kGood));
  ASSERT_TRUE(peer.ok()) << peer.status();
  ASSERT_EQ((*peer)->WaitUntilReady(TimeoutScale() * kReady), absl::OkStatus());
  std::ifstream file(pid_file);
  pid_t pid = -1;
  ASSERT_TRUE(file >> pid);
  EXPECT_EQ(kill(pid, 0), 0);
  peer->reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(PeerSubjectTest, AProgramThatIsNotThereIsNamed) {
  PeerSubject::Setup setup;
  setup.name = "torch";
  setup.prefix = absl::StrCat(::testing::TempDir(), "/none", getpid());
  setup.command = {"no-such-program"};
  EXPECT_THAT(PeerSubject::Start(setup).status().message(),
              AllOf(HasSubstr("torch: cannot open"), HasSubstr("none")));
  ASSERT_EQ(MakePeerFifos(setup.prefix, 1), absl::OkStatus());
  EXPECT_THAT(PeerSubject::Start(setup).status().message(),
              AllOf(HasSubstr("torch: "), HasSubstr("no-such-program")));
}

}  // namespace
}  // namespace bench
}  // namespace muster

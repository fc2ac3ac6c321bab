#include "muster/tools/process/child_process.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/read_file.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

absl::Time Later() { return MonotonicNow() + TimeoutScale() * absl::Seconds(20); }

TEST(ChildProcessTest, EachStreamGoesToItsFileWhichIsMadeAnew) {
  const ProcessOutput output = {absl::StrCat(::testing::TempDir(), "/out"),
                                absl::StrCat(::testing::TempDir(), "/errors")};
  for (const char* script :
       {"echo a longer line; echo another >&2; exit 7", "echo out; echo err >&2; exit 7"}) {
    const absl::StatusOr<RankExit> exit =
        RunProcess({"sh", "-c", script}, Environment::OfProcess(), Later(), output);
    ASSERT_TRUE(exit.ok()) << exit.status();
    EXPECT_EQ(exit->ExitCode(), 7);
  }
  EXPECT_EQ(ReadFile(output.out).value_or(""), "out\n");
  EXPECT_EQ(ReadFile(output.errors).value_or(""), "err\n");
}

TEST(ChildProcessTest, OneThatDoesNotEndIsKilledAtTheDeadline) {
  const absl::Time start = MonotonicNow();
  const absl::StatusOr<RankExit> exit =
      RunProcess({"sleep", "1000"}, Environment::OfProcess(), start + absl::Milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(exit.status())) << exit.status();
  EXPECT_TRUE(absl::StrContains(exit.status().message(), "sleep")) << exit.status();
  EXPECT_GE(MonotonicNow() - start, absl::Milliseconds(50));
}

TEST(ChildProcessTest, AProgramThatIsNotThereIsNamed) {
  const absl::StatusOr<RankExit> exit =
      RunProcess({"no-such-program"}, Environment::OfProcess(), Later());
  EXPECT_TRUE(absl::StrContains(exit.status().message(), "no-such-program")) << exit.status();
}

}  // namespace
}  // namespace muster

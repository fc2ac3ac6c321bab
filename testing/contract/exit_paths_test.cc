// L6: however a process ends, and whatever its group is doing then, it ends with the status that it
// would have had without a group, and every other rank's group ends with a cause that names the
// rank. Each case is a job of three real processes under the launcher (exit_rank.h), on the kind of
// store that `muster run` has and on TCP, with each backend.
//
//   bazel test //testing/contract:exit_paths_test
//   bazel run //testing/contract:exit_paths_test -- --exits=1000    # that many on each path
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/output_sink.h"
#include "muster/core/launch/tcp_launched_store.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/contract/exit_rank.h"
#include "muster/testing/names_rank.h"

namespace muster::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::IsEmpty;

int exits = 0;  // --exits; 0: each state on the first two surroundings

struct Surroundings {
  bool tcp;  // the store; else a unix socket
  const char* backend;
};

constexpr Surroundings kSurroundings[] = {
    {false, "gloo"}, {true, "reference"}, {false, "reference"}, {true, "gloo"}};

struct Case {
  std::string path;
  std::string ends;   // "exited with code 3"
  std::string cause;  // what the others learn, a regular expression; "" for a clean end
  // In which states; empty: in each.
  std::vector<std::string> states;
  bool process_ends = true;  // else its pool does, and another may follow
};

std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.path; }

std::string Lost(absl::string_view how) {
  return absl::StrCat("rank 1 \\(host .*, pid [0-9]+\\) was lost: ", how);
}

std::vector<Case> Cases() {
  const std::string exited =
      "rank 1 \\(host .*, pid [0-9]+\\) exited while its (groups were alive|pool was open)";
  const auto told = [](absl::string_view signal) {
    return absl::StrCat("rank 1 \\(host .*, pid [0-9]+\\) was told to stop by signal ", signal);
  };
  const std::string term = told("15 \\(Terminated\\)");
  const std::string interrupt = told("2 \\(Interrupt\\)");
  // Acquire is called on the pool, which must not be destroyed meanwhile; and a pool whose leases
  // all close waits for that.
  const std::vector<std::string> with_a_lease = {"ready", "collective", "closing", "aborting"};
  return {
      {"return", "exited with code 3", exited, {}},
      {"exit", "exited with code 3", exited, {}},
      {"exit_on_thread", "exited with code 3", exited, {}},
      {"quick_exit", "exited with code 3", Lost("exited with code 3"), {}},
      {"_exit", "exited with code 3", Lost("exited with code 3"), {}},
      {"abort", "killed by signal 6", Lost("killed by signal 6"), {}},
      {"throw", "killed by signal 6", Lost("killed by signal 6"), {}},
      {"destroy_pool", "exited with code 3", "rank 1 destroyed its pool while it held",
       with_a_lease, /*process_ends=*/false},
      {"sigterm", "killed by signal 15", Lost("killed by signal 15"), {}},
      {"sigint", "killed by signal 2", Lost("killed by signal 2"), {}},
      {"sigterm_shutdown", "killed by signal 15", term, {}},
      {"sigint_shutdown", "killed by signal 2", interrupt, {}},
      {"sigterm_handler_exits", "exited with code 5", Lost("exited with code 5"), {}},
      {"sigterm_handler_exits_shutdown", "exited with code 5", term, {}},
      {"sigint_handler_returns", "exited with code 6", exited, {}},
      {"sigint_handler_returns_shutdown", "exited with code 6", interrupt, {}},
      {"fork", "exited with code 0", "rank 1 closed after #3", {"working"}},
      {"fork_exec", "exited with code 0", "rank 1 closed after #3", {"working"}},
      {"die_before_child", "killed by signal 9", Lost("killed by signal 9"), {"ready"}},
      {"unwind", "exited with code 0", "rank 1 left: \"an exception\"", {"ready"}},
      {"last_lease_on_thread", "exited with code 0", "", {"ready"}},
      {"statics", "exited with code 0", "rank 1 destroyed its pool while it held", {"ready"}},
      {"thread_local", "exited with code 0", "", {"ready"}},
  };
}

class Output final : public OutputSink {
 public:
  void Write(int rank, OutputStream stream, absl::string_view bytes) override {
    if (stream == OutputStream::kOutput) said[rank].append(bytes.data(), bytes.size());
    absl::StrAppend(&all, bytes);
  }
  void Finish(int, OutputStream) override {}

  std::string said[kExitRanks];
  std::string all;
};

Environment WithoutThreadLeaks() {
  // Whoever ends by exit() while others run leaves threads, which TSan would make its own exit code
  // of.
  Environment::Variables variables = Environment::OfProcess().variables();
  absl::StrAppend(&variables["TSAN_OPTIONS"], ":report_thread_leaks=0");
  return Environment(std::move(variables));
}

class ExitPathsTest : public ::testing::TestWithParam<Case> {
 protected:
  void RunOnce(const std::string& state, const Surroundings& surroundings) {
    std::string folder = absl::StrCat(::testing::TempDir(), "/exit-XXXXXX");
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const std::string fifo = folder + "/fifo";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    Output output;
    JobOptions job;
    job.command = ExitRankCommand(state, GetParam().path, surroundings.backend, fifo);
    job.ranks = kExitRanks;
    job.environment = WithoutThreadLeaks();
    // However slow the launcher is, which alone knows how a process ended: else it is overtaken by
    // "its connection closed", and on a busy machine that would be good enough for every path.
    ServeStoreOptions patient;
    patient.loss_grace = TimeoutScale() * absl::Seconds(10);
    job.store = surroundings.tcp ? ServeTcpStore(patient) : ServeUnixStore(patient);
    job.output = &output;
    job.limits.timeout = TimeoutScale() * absl::Seconds(30);
    job.limits.failure_grace = job.limits.timeout;
    const absl::StatusOr<JobResult> result = RunJob(job);
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(result.ok()) << result.status();
    SCOPED_TRACE(absl::StrCat("in state ", state, ", ", surroundings.backend,
                              surroundings.tcp ? " and TCP" : " and a unix socket", "\n",
                              output.all));

    EXPECT_EQ(result->store_notice, "");
    ASSERT_TRUE(result->ranks[kExits].exit.has_value());
    EXPECT_EQ(result->ranks[kExits].exit->ToString(), GetParam().ends);
    EXPECT_THAT(result->left, IsEmpty());
    for (int rank = 0; rank < kExitRanks; ++rank) {
      if (rank == kExits) continue;
      EXPECT_EQ(result->ranks[rank].exit->ToString(), "exited with code 0") << "rank " << rank;
      ExpectEnded(state, absl::string_view(surroundings.backend) == "gloo", rank,
                  output.said[rank]);
    }
  }

  // `says_goodbye`: the backends of two ranks take leave of each other.
  static void ExpectEnded(const std::string& state, bool says_goodbye, int rank,
                          absl::string_view said) {
    const std::vector<std::string> lines = absl::StrSplit(said, '\n');
    ASSERT_EQ(lines.size(), 3u) << "rank " << rank << " did not come to its end";
    absl::string_view ended = lines[0];
    ASSERT_TRUE(absl::ConsumePrefix(&ended, "ended: ")) << said;
    EXPECT_EQ(lines[1], "left: nothing") << "rank " << rank;
    if (ended == "it never began") {
      EXPECT_TRUE(rank == 2 && (state == "rendezvous" || state == "joined"));
      return;
    }
    // Once all have agreed to close, a rank may end as it likes: it keeps no other from its end.
    // But its backend may still have had a word to say, which the backend of another then misses.
    if (state == "closing") {
      if (says_goodbye && ended != "destroyed") {
        const std::string why =
            GetParam().process_ends ? GetParam().cause : "lost contact with ranks? [0-2, ]+: ";
        EXPECT_THAT(std::string(ended),
                    ContainsRegex(absl::StrCat("^'train/1' was not closed cleanly: ", why)));
      } else {
        EXPECT_EQ(ended, "destroyed") << "rank " << rank;
      }
      return;
    }
    if (GetParam().cause.empty()) {
      EXPECT_EQ(ended, "destroyed") << "rank " << rank;
      return;
    }
    EXPECT_TRUE(NamesRank(ended, kExits)) << ended;
    if (state == "aborting") {  // which has a cause already
      EXPECT_THAT(std::string(ended), ContainsRegex("rank 1 left: \"enough\""));
    } else {
      EXPECT_THAT(std::string(ended), ContainsRegex(GetParam().cause)) << "rank " << rank;
    }
  }
};

TEST_P(ExitPathsTest, TheProcessEndsAsItWouldAndEveryOtherRankLearnsOfIt) {
  const std::vector<std::string>& states =
      GetParam().states.empty() ? ExitStates() : GetParam().states;
  const size_t runs = exits > 0 ? static_cast<size_t>(exits) : 2 * states.size();
  for (size_t run = 0; run < runs && !HasFailure(); ++run) {
    RunOnce(states[run % states.size()],
            kSurroundings[run / states.size() % std::size(kSurroundings)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, ExitPathsTest, ::testing::ValuesIn(Cases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           std::string name = info.param.path;
                           if (name[0] == '_') name = "immediate" + name;
                           return name;
                         });

}  // namespace
}  // namespace muster::testing

int main(int argc, char** argv) {
  if (muster::testing::IsExitRank(argc, argv)) return muster::testing::ExitRankMain(argv);
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (!absl::ConsumePrefix(&argument, "--exits=") ||
        !absl::SimpleAtoi(argument, &muster::testing::exits)) {
      fprintf(stderr, "%s: expected --exits=NUMBER\n", argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

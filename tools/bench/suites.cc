#include "muster/tools/bench/suites.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/output_sink.h"
#include "muster/core/launch/tcp_launched_store.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/read_file.h"
#include "muster/core/rendezvous/world.h"
#include "muster/tools/bench/options.h"
#include "muster/tools/bench/peer_subject.h"
#include "muster/tools/bench/rank_bench.h"
#include "muster/tools/bench/report.h"
#include "muster/tools/bench/samples.h"
#include "muster/tools/bench/schedule.h"

namespace muster {
namespace bench {
namespace {

// How a rank learns its part; all else is on the command line.
constexpr char kFolderVariable[] = "MUSTER_BENCH_FOLDER";
constexpr char kSuiteFolderVariable[] = "MUSTER_BENCH_SUITE_FOLDER";
constexpr char kSuiteVariable[] = "MUSTER_BENCH_SUITE";
constexpr char kSubjectsVariable[] = "MUSTER_BENCH_SUBJECTS";
constexpr char kSeedVariable[] = "MUSTER_BENCH_SEED";

constexpr char kGlooInfo[] = "] INFO Rank ";

// The end of what each rank said, shown when something went wrong: gloo reports each connection,
// and ranks that lose a peer on purpose have much to say.
class KeptOutput final : public OutputSink {
 public:
  void Write(int rank, OutputStream, absl::string_view bytes) override {
    constexpr size_t kKept = 4000;
    std::string& text = text_[rank];
    absl::StrAppend(&text, bytes);
    if (text.size() > kKept) text.erase(0, text.size() - kKept);
  }
  void Finish(int, OutputStream) override {}

  void Print() const {
    for (const auto& [rank, text] : text_) {
      for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
        if (absl::StrContains(line, kGlooInfo)) continue;
        std::cerr << "[" << rank << "] " << line << "\n";
      }
    }
  }

 private:
  std::map<int, std::string> text_;
};

JobOptions MakeJob(const SuiteJob& suite, const std::string& suite_folder,
                   const std::vector<std::string>& subjects, OutputSink* output) {
  JobOptions job;
  job.command = suite.command;
  job.ranks = suite.options.ranks;
  Environment::Variables variables = suite.environment.variables();
  variables[kFolderVariable] = suite.folder;
  variables[kSuiteFolderVariable] = suite_folder;
  variables[kSuiteVariable] = suite.suite;
  variables[kSubjectsVariable] = absl::StrJoin(subjects, ",");
  variables[kSeedVariable] = absl::StrCat(suite.options.seed.value_or(0));
  job.environment = Environment(std::move(variables));
  job.store = ServeUnixStore();
  job.output = output;
  // Peers have 5 s to go.
  job.left_grace = absl::Seconds(6);
  job.limits.failure_grace = absl::Seconds(5);
  return job;
}

absl::StatusOr<std::string> MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the folder ", path));
  }
  return path;
}

absl::StatusOr<int64_t> ReadTime(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  int64_t nanoseconds = 0;
  if (!absl::SimpleAtoi(*text, &nanoseconds)) {
    return absl::DataLossError(absl::StrCat(path, " holds no time"));
  }
  return nanoseconds;
}

absl::Status Failed(const JobResult& result) {
  return absl::AbortedError(absl::StrJoin(result.Report(), "; "));
}

absl::StatusOr<std::vector<Sample>> RunRounds(const SuiteJob& suite) {
  const absl::StatusOr<std::string> folder =
      MakeFolder(absl::StrCat(suite.folder, "/", suite.suite));
  if (!folder.ok()) return folder.status();
  for (const std::string& peer : suite.peers) {
    absl::Status status = MakePeerFifos(absl::StrCat(*folder, "/", peer), suite.options.ranks);
    if (!status.ok()) return status;
  }
  KeptOutput output;
  JobOptions job = MakeJob(suite, *folder, SubjectsOf(suite.suite, suite.peers), &output);
  job.limits.timeout = suite.options.timeout;
  const absl::StatusOr<JobResult> result = RunJob(job);
  if (!result.ok()) return result.status();
  if (!result->ok()) {
    output.Print();
    return Failed(*result);
  }
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(*folder, "/", kSamplesFile));
  if (!text.ok()) return text.status();
  return ParseSamples(*text);
}

// One job a sample: a rank dies in each.
absl::StatusOr<Sample> DetectOnce(const SuiteJob& suite, const std::string& folder,
                                  const std::string& subject, absl::Duration timeout) {
  absl::StatusOr<std::string> made = MakeFolder(folder);
  if (!made.ok()) return made.status();
  KeptOutput output;
  JobOptions job = MakeJob(suite, folder, {subject}, &output);
  job.limits.timeout = timeout;
  // The survivors' own bound is what is measured where nothing is noticed.
  job.limits.failure_grace = kStepTimeout + absl::Seconds(5);
  const absl::StatusOr<JobResult> result = RunJob(job);
  if (!result.ok()) return result.status();
  const int victim = suite.options.ranks - 1;
  bool as_planned = result->first_failed == victim && result->left.empty();
  for (int rank = 0; rank < victim; ++rank) {
    const RankResult& survivor = result->ranks[static_cast<size_t>(rank)];
    as_planned = as_planned && survivor.exit.has_value() && survivor.exit->ok();
  }
  const absl::StatusOr<int64_t> killed = ReadTime(KilledFile(folder));
  if (!as_planned || !killed.ok()) {
    output.Print();
    return as_planned ? killed.status() : Failed(*result);
  }
  int64_t last = 0;
  for (int rank = 0; rank < victim; ++rank) {
    const absl::StatusOr<int64_t> noticed = ReadTime(SurvivorFile(folder, rank));
    if (!noticed.ok()) return noticed.status();
    if (*noticed < *killed) {
      return absl::DataLossError(
          absl::StrCat(subject, ": rank ", rank, " failed before rank ", victim, " was killed"));
    }
    last = std::max(last, *noticed);
  }
  return Sample{absl::StrCat("sigkill_", suite.options.ranks, "_ranks"), subject,
                static_cast<double>(last - *killed) / 1000};
}

absl::StatusOr<std::vector<Sample>> RunDetection(const SuiteJob& suite) {
  const absl::Time deadline = MonotonicNow() + suite.options.timeout;
  const std::vector<std::string> subjects = SubjectsOf(suite.suite, suite.peers);
  std::vector<Sample> samples;
  for (int round = -std::min(suite.options.warmup, 1); round < suite.options.repetitions; ++round) {
    for (int index :
         RoundOrder(suite.options.seed.value_or(0), round, static_cast<int>(subjects.size()))) {
      const absl::Duration left = deadline - MonotonicNow();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(absl::StrCat(
            "--timeout=", absl::FormatDuration(suite.options.timeout), " passed in round ", round,
            " of ", suite.options.repetitions, ": give it more, or fewer repetitions"));
      }
      const absl::StatusOr<Sample> sample =
          DetectOnce(suite, absl::StrCat(suite.folder, "/", suite.suite, ".", round, ".", index),
                     subjects[static_cast<size_t>(index)], left);
      if (!sample.ok()) return sample.status();
      if (round >= 0) samples.push_back(*sample);
    }
  }
  return samples;
}

absl::Status RunRank(const RankTask& task, const std::string& suite,
                     const Environment& environment) {
  const absl::StatusOr<World> world = WorldFromEnvironment(environment);
  if (!world.ok()) return world.status();
  absl::StatusOr<std::unique_ptr<RankBench>> bench = RankBench::Create(*world, environment, task);
  if (!bench.ok()) return bench.status();
  if (suite == kDetection) return (*bench)->Detection();
  const absl::StatusOr<std::vector<Sample>> samples =
      suite == kLifecycle ? (*bench)->Lifecycle() : (*bench)->Collective();
  if (!samples.ok()) return samples.status();
  absl::Status status = (*bench)->Close();
  if (!status.ok() || world->rank != 0) return status;
  return WriteFileAtomically(absl::StrCat(task.suite_folder, "/", kSamplesFile),
                             FormatSamples(*samples));
}

}  // namespace

std::vector<std::string> SubjectsOf(absl::string_view suite,
                                    const std::vector<std::string>& peers) {
  std::vector<std::string> subjects = {"muster/reference", "muster/gloo", "gloo"};
  if (suite == kLifecycle) subjects.push_back("gloo/file");
  if (suite != kDetection) subjects.insert(subjects.end(), peers.begin(), peers.end());
  return subjects;
}

absl::StatusOr<std::vector<Sample>> RunSuite(const SuiteJob& job) {
  return job.suite == kDetection ? RunDetection(job) : RunRounds(job);
}

bool IsRank(const Environment& environment) { return environment.Get(kSuiteVariable).has_value(); }

int RankMain(const Options& options, const Environment& environment) {
  RankTask task;
  task.folder = environment.Get(kFolderVariable).value_or("");
  task.suite_folder = environment.Get(kSuiteFolderVariable).value_or("");
  task.subjects = absl::StrSplit(environment.Get(kSubjectsVariable).value_or(""), ',');
  task.options = options;
  uint64_t seed = 0;
  if (absl::SimpleAtoi(environment.Get(kSeedVariable).value_or(""), &seed)) {
    task.options.seed = seed;
  }
  const std::string suite = environment.Get(kSuiteVariable).value_or("");
  const absl::Status status = RunRank(task, suite, environment);
  if (status.ok()) return 0;
  std::cerr << "bench, " << suite << ": " << status.message() << std::endl;
  return 1;
}

}  // namespace bench
}  // namespace muster

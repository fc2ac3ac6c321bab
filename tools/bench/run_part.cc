#include "muster/tools/bench/run_part.h"

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
#include "muster/tools/bench/store_bench.h"

namespace muster {
namespace bench {
namespace {

// How a rank learns its part; all else is on the command line.
constexpr char kFolderVariable[] = "MUSTER_BENCH_FOLDER";
constexpr char kJobFolderVariable[] = "MUSTER_BENCH_JOB_FOLDER";
constexpr char kPartVariable[] = "MUSTER_BENCH_PART";
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

JobOptions MakeJob(const PartJob& part, const std::string& job_folder,
                   const std::vector<std::string>& subjects, OutputSink* output) {
  JobOptions job;
  job.command = part.command;
  job.ranks = part.ranks;
  Environment::Variables variables = part.environment.variables();
  variables[kFolderVariable] = part.folder;
  variables[kJobFolderVariable] = job_folder;
  variables[kPartVariable] = part.part;
  variables[kSubjectsVariable] = absl::StrJoin(subjects, ",");
  variables[kSeedVariable] = absl::StrCat(part.options.seed.value_or(0));
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

absl::StatusOr<std::vector<Sample>> RunRounds(const PartJob& part) {
  const absl::StatusOr<std::string> folder =
      MakeFolder(absl::StrCat(part.folder, "/", part.part, ".", part.ranks));
  if (!folder.ok()) return folder.status();
  for (const std::string& peer : part.peers) {
    absl::Status status = MakePeerFifos(absl::StrCat(*folder, "/", peer), part.ranks);
    if (!status.ok()) return status;
  }
  KeptOutput output;
  JobOptions job = MakeJob(part, *folder, SubjectsOf(part.part, part.peers), &output);
  job.limits.timeout = part.options.timeout;
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
absl::StatusOr<Sample> DetectOnce(const PartJob& part, const std::string& folder,
                                  const std::string& subject, absl::Duration timeout) {
  absl::StatusOr<std::string> made = MakeFolder(folder);
  if (!made.ok()) return made.status();
  KeptOutput output;
  JobOptions job = MakeJob(part, folder, {subject}, &output);
  job.limits.timeout = timeout;
  // The survivors' own bound is what is measured where nothing is noticed.
  job.limits.failure_grace = kStepTimeout + absl::Seconds(5);
  const absl::StatusOr<JobResult> result = RunJob(job);
  if (!result.ok()) return result.status();
  const int victim = part.ranks - 1;
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
  return Sample{absl::StrCat("sigkill_", part.ranks, "_ranks"), subject,
                static_cast<double>(last - *killed) / 1000};
}

absl::Status TookTooLong(const Options& options, int round) {
  return absl::DeadlineExceededError(
      absl::StrCat("--timeout=", absl::FormatDuration(options.timeout), " passed in round ", round,
                   " of ", options.repetitions, ": give it more, or fewer repetitions"));
}

absl::StatusOr<std::vector<Sample>> RunDetection(const PartJob& part) {
  const absl::Time deadline = MonotonicNow() + part.options.timeout;
  const std::vector<std::string> subjects = SubjectsOf(part.part, part.peers);
  std::vector<Sample> samples;
  for (int round = -std::min(part.options.warmup, 1); round < part.options.repetitions; ++round) {
    for (int index :
         RoundOrder(part.options.seed.value_or(0), round, static_cast<int>(subjects.size()))) {
      const absl::Duration left = deadline - MonotonicNow();
      if (left <= absl::ZeroDuration()) return TookTooLong(part.options, round);
      const absl::StatusOr<Sample> sample = DetectOnce(
          part, absl::StrCat(part.folder, "/", part.part, ".", part.ranks, ".", round, ".", index),
          subjects[static_cast<size_t>(index)], left);
      if (!sample.ok()) return sample.status();
      if (round >= 0) samples.push_back(*sample);
    }
  }
  return samples;
}

// In this process: its ranks are threads.
absl::StatusOr<std::vector<Sample>> RunStore(const PartJob& part) {
  const absl::Time deadline = MonotonicNow() + part.options.timeout;
  const absl::StatusOr<std::string> folder =
      MakeFolder(absl::StrCat(part.folder, "/", part.part, ".", part.ranks));
  if (!folder.ok()) return folder.status();
  absl::StatusOr<std::unique_ptr<StoreBench>> bench = StoreBench::Create(part.ranks, *folder);
  if (!bench.ok()) return bench.status();
  const std::string case_name = absl::StrCat("store_", part.ranks, "_ranks");
  const std::vector<std::string> subjects = SubjectsOf(part.part, part.peers);
  std::vector<Sample> samples;
  for (int round = -part.options.warmup; round < part.options.repetitions; ++round) {
    for (int index :
         RoundOrder(part.options.seed.value_or(0), round, static_cast<int>(subjects.size()))) {
      if (MonotonicNow() >= deadline) return TookTooLong(part.options, round);
      const std::string& subject = subjects[static_cast<size_t>(index)];
      const absl::StatusOr<StoreCost> cost = (*bench)->CreateAndClose(subject);
      if (!cost.ok()) return cost.status();
      if (round < 0) continue;
      samples.push_back({case_name, subject, absl::ToDoubleMicroseconds(cost->slowest)});
      samples.push_back({case_name, subject, cost->server_us, "server us/rank"});
      samples.push_back({case_name, subject, cost->requests, "requests/rank"});
      samples.push_back({case_name, subject, cost->bytes, "bytes/rank"});
    }
  }
  return samples;
}

absl::Status RunRank(const RankTask& task, const std::string& part,
                     const Environment& environment) {
  const absl::StatusOr<World> world = WorldFromEnvironment(environment);
  if (!world.ok()) return world.status();
  absl::StatusOr<std::unique_ptr<RankBench>> bench = RankBench::Create(*world, environment, task);
  if (!bench.ok()) return bench.status();
  if (part == kDetection) return (*bench)->Detection();
  const absl::StatusOr<std::vector<Sample>> samples =
      part == kCreateDestroy ? (*bench)->CreateDestroy() : (*bench)->Collective();
  if (!samples.ok()) return samples.status();
  absl::Status status = (*bench)->Close();
  if (!status.ok() || world->rank != 0) return status;
  return WriteFileAtomically(absl::StrCat(task.job_folder, "/", kSamplesFile),
                             FormatSamples(*samples));
}

}  // namespace

std::vector<std::string> SubjectsOf(absl::string_view part, const std::vector<std::string>& peers) {
  std::vector<std::string> subjects = {"muster/reference", "muster/gloo"};
  if (part == kStore) return subjects;
  subjects.push_back("gloo");
  if (part == kCreateDestroy) {
    subjects.push_back("gloo/prompt");
    subjects.push_back("gloo/file");
  }
  if (part != kDetection) subjects.insert(subjects.end(), peers.begin(), peers.end());
  return subjects;
}

absl::StatusOr<std::vector<Sample>> RunPart(const PartJob& job) {
  if (job.part == kStore) return RunStore(job);
  return job.part == kDetection ? RunDetection(job) : RunRounds(job);
}

bool IsRank(const Environment& environment) { return environment.Get(kPartVariable).has_value(); }

int RankMain(const Options& options, const Environment& environment) {
  RankTask task;
  task.folder = environment.Get(kFolderVariable).value_or("");
  task.job_folder = environment.Get(kJobFolderVariable).value_or("");
  task.subjects = absl::StrSplit(environment.Get(kSubjectsVariable).value_or(""), ',');
  task.options = options;
  uint64_t seed = 0;
  if (absl::SimpleAtoi(environment.Get(kSeedVariable).value_or(""), &seed)) {
    task.options.seed = seed;
  }
  const std::string part = environment.Get(kPartVariable).value_or("");
  const absl::Status status = RunRank(task, part, environment);
  if (status.ok()) return 0;
  std::cerr << "bench, " << part << ": " << status.message() << std::endl;
  return 1;
}

}  // namespace bench
}  // namespace muster

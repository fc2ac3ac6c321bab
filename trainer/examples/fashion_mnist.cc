// Trains a small network on Fashion-MNIST, on several ranks of this host, and says what became of
// the process group.
//
//   bazel run //trainer/examples:fashion_mnist                     # two ranks, started by itself
//   bazel run //trainer/examples:fashion_mnist -- --ranks=4 --backend=reference
//   muster run -n 2 -- bazel-bin/trainer/examples/fashion_mnist --data=DIR    # under a launcher
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/log/initialize.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "muster/core/collective/backend.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/output_sink.h"
#include "muster/core/launch/program.h"
#include "muster/core/launch/tcp_launched_store.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/standard_descriptors.h"
#include "muster/core/platform/users_path.h"
#include "muster/core/rendezvous/world.h"
#include "muster/trainer/data.h"
#include "muster/trainer/examples/data_folder.h"
#include "muster/trainer/examples/flag_types.h"
#include "muster/trainer/examples/image_data.h"
#include "muster/trainer/examples/mlp.h"
#include "muster/trainer/examples/report.h"
#include "muster/trainer/progress.h"
#include "muster/trainer/trainer.h"

ABSL_FLAG(std::optional<muster::CountFlag>, ranks, std::nullopt,
          "Ranks to start on this host, when no launcher started us; 2 where it is not given.");
ABSL_FLAG(std::string, backend, "auto", "What connects the ranks: auto, gloo, reference.");
ABSL_FLAG(muster::CountFlag, epochs, {5}, "Passes over the training images.");
ABSL_FLAG(std::string, data, "",
          "Folder of the four Fashion-MNIST files; by default Bazel's copy.");
ABSL_FLAG(muster::GroupLifetime, group_lifetime, muster::GroupLifetime::kTrainer,
          "trainer: one group for fit, validate and test; stage: one each.");
ABSL_FLAG(std::string, report, "", "File for a report in JSON, written by rank 0.");
ABSL_FLAG(muster::CountFlag, batch_size, {64}, "Images of one rank in one step.");
ABSL_FLAG(muster::RateFlag, lr, {0.05}, "Learning rate of the first step; it falls to 0.");
ABSL_FLAG(muster::FractionFlag, momentum, {0.9}, "Momentum.");
ABSL_FLAG(muster::TimeoutFlag, setup_timeout, {absl::Seconds(30)},
          "How long to wait for the store and for the other ranks.");
ABSL_FLAG(muster::TimeoutFlag, heartbeat_timeout, {absl::Seconds(10)},
          "A rank that is silent for longer (stopped, stuck, cut off) is lost.");
ABSL_FLAG(uint64_t, seed, 1, "Of the first weights and of the order of images.");

namespace muster {
namespace {

constexpr char kGroup[] = "train";
constexpr int64_t kRanks = 2;
// Of the training images, for validation: every twelfth part.
constexpr int64_t kValidationShare = 12;

int Fail(const std::string& who, const absl::Status& status) {
  std::cerr << who << ": " << status.message() << std::endl;
  return 1;
}

bool StartedByLauncher(const Environment& environment) {
  return environment.Get("MUSTER_RANK").has_value() || environment.Get("RANK").has_value();
}

std::optional<int64_t> RanksAskedFor() {
  const std::optional<CountFlag> ranks = absl::GetFlag(FLAGS_ranks);
  return ranks.has_value() ? std::make_optional(ranks->value) : std::nullopt;
}

absl::StatusOr<std::string> ThisProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0 || length == static_cast<ssize_t>(sizeof(path))) {
    return absl::UnavailableError("/proc/self/exe does not name this program: is /proc mounted?");
  }
  return std::string(path, static_cast<size_t>(length));
}

// What can be wrong before anything starts. Gives the folder of the data.
absl::StatusOr<std::string> CheckFlags(const Environment& environment, const std::string& program) {
  const std::string backend = absl::GetFlag(FLAGS_backend);
  if (backend != "auto") {
    absl::Status found = BackendRegistry::Global().Find(backend).status();
    if (!found.ok()) {
      return absl::Status(found.code(), absl::StrCat("--backend=", backend, ": ", found.message()));
    }
  }
  if (!absl::GetFlag(FLAGS_report).empty()) {
    absl::Status report = CheckReport(UsersPath(environment, absl::GetFlag(FLAGS_report)));
    if (!report.ok()) return report;
  }
  if (absl::GetFlag(FLAGS_data).empty()) return FindBundledData(environment, program);
  std::string folder = UsersPath(environment, absl::GetFlag(FLAGS_data));
  absl::Status status = CheckDataFolder(folder);
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat("--data=", status.message()));
  return folder;
}

TrainerOptions MakeOptions(const Environment& environment, const World& world) {
  TrainerOptions options;
  options.max_epochs = absl::GetFlag(FLAGS_epochs).value;
  options.batch_size = absl::GetFlag(FLAGS_batch_size).value;
  options.sgd.learning_rate = absl::GetFlag(FLAGS_lr).value;
  options.sgd.momentum = absl::GetFlag(FLAGS_momentum).value;
  options.schedule = LearningRateSchedule::kLinear;
  options.seed = absl::GetFlag(FLAGS_seed);
  options.group.name = kGroup;
  options.group.backend = absl::GetFlag(FLAGS_backend);
  options.group.setup_timeout = absl::GetFlag(FLAGS_setup_timeout).value;
  options.pool.connect_timeout = absl::GetFlag(FLAGS_setup_timeout).value;
  options.pool.heartbeat_timeout = absl::GetFlag(FLAGS_heartbeat_timeout).value;
  options.group_lifetime = absl::GetFlag(FLAGS_group_lifetime);
  options.world = world;
  options.progress = ProgressOutput::OfStandardOutput(environment);
  return options;
}

struct Images {
  ImageData train;
  ImageData test;
};

absl::StatusOr<Images> LoadImages(const Environment& environment, const std::string& program) {
  absl::StatusOr<std::string> folder = CheckFlags(environment, program);
  if (!folder.ok()) return folder.status();
  absl::StatusOr<ImageData> train = ImageData::Load(*folder, ImageData::Part::kTrain);
  if (!train.ok()) return train.status();
  absl::StatusOr<ImageData> test = ImageData::Load(*folder, ImageData::Part::kTest);
  if (!test.ok()) return test.status();
  return Images{*std::move(train), *std::move(test)};
}

// Joins the job only to leave it with `why`: the other ranks wait for this one in their first
// stage, and end with the reason instead of their timeout.
void LeaveWith(const absl::Status& why, const TrainerOptions& options) {
  absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::Create(*options.world, options.pool);
  if (!pool.ok()) return;  // nobody to tell
  absl::StatusOr<GroupLease> group = (*pool)->Acquire(options.group);
  if (group.ok()) group->Abort(why);
}

// Fit, validate, test; then the end of the group. The report is this rank's.
absl::StatusOr<Report> Train(TrainerOptions options, Images& images) {
  const int64_t held_back = images.train.size() / kValidationShare;
  Subset train(images.train, 0, images.train.size() - held_back);
  Subset validation(images.train, images.train.size() - held_back, held_back);
  Mlp<float> module(MlpShape{ImageData::kPixels, 256, ImageData::kClasses},
                    absl::GetFlag(FLAGS_seed));

  const ProcessHoldings baseline = ProcessHoldings::Now();
  Report report;
  {
    Trainer trainer(std::move(options));
    absl::Status status = trainer.Fit(module, train, validation);
    if (status.ok()) status = trainer.Validate(module, validation);
    if (status.ok()) status = trainer.Test(module, images.test);
    if (status.ok()) status = trainer.Close();
    if (!status.ok()) return status;

    const PoolStatistics statistics = trainer.group_statistics();
    report.groups_created = statistics.groups_created;
    report.groups_reused = statistics.groups_reused;
    report.create = statistics.last_create;
    report.destroy = statistics.last_destroy;
    report.test_accuracy = trainer.test_result()->accuracy();
    report.epochs = static_cast<int64_t>(trainer.epochs().size());
    double samples = 0;
    double seconds = 0;
    for (const EpochResult& epoch : trainer.epochs()) {
      samples += epoch.samples_per_second * absl::ToDoubleSeconds(epoch.duration);
      seconds += absl::ToDoubleSeconds(epoch.duration);
    }
    report.samples_per_second = seconds > 0 ? samples / seconds : 0;
  }
  report.left = ProcessHoldings::Beyond(baseline, absl::Seconds(1));
  return report;
}

int RunRank(const Environment& environment, const std::string& program) {
  absl::StatusOr<World> world = WorldFromEnvironment(environment);
  if (!world.ok()) return Fail("fashion_mnist", world.status());
  const std::string who = absl::StrCat("fashion_mnist, rank ", world->rank);
  const int64_t ranks = RanksAskedFor().value_or(world->size);
  if (ranks != world->size) {
    return Fail(who, absl::InvalidArgumentError(absl::StrCat(
                         "--ranks is ", ranks, " and a launcher started ", world->size,
                         " ranks: leave the flag out, or give the launcher this number")));
  }
  const TrainerOptions options = MakeOptions(environment, *world);
  absl::StatusOr<Images> images = LoadImages(environment, program);
  if (!images.ok()) {
    const int code = Fail(who, images.status());
    if (world->size > 1) LeaveWith(images.status(), options);
    return code;
  }
  absl::StatusOr<Report> report = Train(options, *images);
  if (!report.ok()) return Fail(who, report.status());

  GroupSpec spec;
  spec.name = "report";
  spec.backend = absl::GetFlag(FLAGS_backend);
  report = MergeReports(*world, *report, spec);
  if (!report.ok()) return Fail(who, report.status());
  if (world->rank != 0) return 0;
  absl::StatusOr<int64_t> keys = CountLeftKeys(*world, kGroup);
  if (!keys.ok()) return Fail(who, keys.status());
  report->left_keys = *keys;
  std::cout << report->Summary(kGroup) << std::endl;
  if (absl::GetFlag(FLAGS_report).empty()) return 0;
  absl::Status status = WriteReport(UsersPath(environment, absl::GetFlag(FLAGS_report)), *report);
  return status.ok() ? 0 : Fail(who, status);
}

// Starts the ranks: this same program with the same flags.
int Launch(const Environment& environment, const std::string& program, int argc, char** argv,
           const std::string& data_folder) {
  JobOptions job;
  job.command = {program};
  job.command.insert(job.command.end(), argv + 1, argv + argc);
  job.command.push_back(absl::StrCat("--data=", data_folder));  // the last one counts
  job.ranks = static_cast<int>(RanksAskedFor().value_or(kRanks));
  job.environment = environment;
  job.store = ServeUnixStore();
  PrefixedOutput output(job.ranks, STDOUT_FILENO, STDERR_FILENO);
  job.output = &output;
  const absl::StatusOr<JobResult> result = RunJob(job);
  if (!result.ok()) {
    Fail("fashion_mnist", result.status());
    return ExitCodeOfLaunchError(result.status());
  }
  for (const std::string& line : result->Report()) std::cerr << "[muster] " << line << std::endl;
  return result->ExitCode();
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Trains a classifier of Fashion-MNIST on several ranks.\n  fashion_mnist [--ranks=2] "
      "[--backend=auto] [--epochs=5] [--data=DIR] [--group_lifetime=trainer|stage] "
      "[--report=FILE]");
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  absl::InitializeLog();
  if (rest.size() > 1) {
    return Fail("fashion_mnist",
                absl::InvalidArgumentError(
                    absl::StrCat("'", rest[1], "' is no flag: flags begin with --, see --help")));
  }
  const Environment environment = Environment::OfProcess();
  const absl::StatusOr<std::string> program = ThisProgram();
  if (!program.ok()) return Fail("fashion_mnist", program.status());
  // One rank alone needs no launcher, and keeps the terminal to itself.
  if (StartedByLauncher(environment) || RanksAskedFor() == 1) {
    return RunRank(environment, *program);
  }
  const absl::StatusOr<std::string> data_folder = CheckFlags(environment, *program);
  if (!data_folder.ok()) return Fail("fashion_mnist", data_folder.status());
  return Launch(environment, *program, argc, argv, *data_folder);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  const muster::StandardDescriptors standard;
  return muster::Main(argc, argv);
}

// main() of a multi-rank test. One binary, two roles: the launcher starts it again as N ranks under
// core/launch, so no file has to be found and an importing repository needs nothing else.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/log/initialize.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/output_sink.h"
#include "muster/core/launch/private_folder.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/launch/tcp_launched_store.h"
#include "muster/core/platform/environment.h"
#include "muster/testing/job_report.h"
#include "muster/testing/rank_events.h"
#include "muster/testing/rank_listeners.h"
#include "muster/testing/test_barrier.h"
#include "muster/testing/test_environment.h"

namespace muster {
namespace testing {
namespace {

constexpr int kSetUpError = 125;
constexpr char kBackendVariable[] = "MUSTER_TEST_BACKEND";

int Complain(const absl::Status& status) {
  std::cerr << "[muster] " << status.message() << '\n';
  return kSetUpError;
}

// --- A rank.

int RunTests(int argc, char** argv, RankEventWriter* events) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  // In this order: see RankEventListener.
  if (events != nullptr) listeners.Append(new RankEventListener(events));
  listeners.Append(new LeakListener(LeakListener::ProcessProbe(), events));
  int code = RUN_ALL_TESTS();
  // What fails at the very end is in no test.
  if (code == 0 && ::testing::UnitTest::GetInstance()->Failed()) code = 1;
  if (events != nullptr) events->Finished(code);
  return code;
}

int RunRank(int argc, char** argv, const std::string& events_path) {
  absl::StatusOr<std::unique_ptr<RankEventWriter>> events = RankEventWriter::Open(events_path);
  if (!events.ok()) return Complain(events.status());
  return RunTests(argc, argv, events->get());
}

// --- The launcher.

// Exists while the program has not come to its end: Bazel's protocol.
class PrematureExitFile {
 public:
  explicit PrematureExitFile(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) std::ofstream(path_) << "0";
  }
  ~PrematureExitFile() {
    if (!path_.empty()) std::remove(path_.c_str());
  }

 private:
  const std::string path_;
};

absl::Status WriteXml(const std::string& path, const std::string& xml) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << xml;
  out.close();
  if (out) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the XML report cannot be written to \"", path,
                                             "\": ", errno == 0 ? "failed" : strerror(errno)));
}

void PrintTail(const std::string& path, absl::string_view name, size_t lines_shown) {
  std::ifstream in(path, std::ios::binary);
  std::deque<std::string> lines;
  size_t count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    lines.push_back(std::move(line));
    if (lines.size() > lines_shown) lines.pop_front();
  }
  std::cout << "--- " << name;
  if (count > lines.size()) {
    std::cout << ", the last " << lines.size() << " of " << count << " lines";
  }
  std::cout << "\n";
  for (const std::string& line : lines) std::cout << line << "\n";
}

class TestJob {
 public:
  explicit TestJob(TestPlan plan) : plan_(std::move(plan)) {}

  int Run();

 private:
  std::string Events(int rank) const { return EventsPath(folder_->path(), rank); }
  JobOptions Options();
  JobReport Report(const JobResult& result) const;
  void Print(const JobReport& report) const;

  const TestPlan plan_;
  std::unique_ptr<PrivateFolder> folder_;
  std::unique_ptr<RankLogs> logs_;
};

JobOptions TestJob::Options() {
  JobOptions job;
  job.command = {"/proc/self/exe"};
  job.command.insert(job.command.end(), plan_.rank_arguments.begin(), plan_.rank_arguments.end());
  job.ranks = plan_.ranks;
  job.environment = plan_.rank_environment;
  job.rank_variables = [this](int rank) {
    return std::map<std::string, std::string>{{std::string(kEventsVariable), Events(rank)},
                                              {kBackendVariable, plan_.backend}};
  };
  job.limits.timeout = plan_.deadline;
  job.limits.failure_grace = plan_.failure_grace;
  job.limits.straggler_grace = plan_.straggler_grace;
  // Bazel's own patience after SIGTERM is 5 s here.
  job.limits.interrupt_grace = absl::Seconds(2);
  job.left_grace = plan_.left_grace;
  // Failed, but run to the end: the other ranks may finish their tests, too.
  job.in_order = [this](int rank, const RankExit&) {
    const absl::StatusOr<RankRecord> record = ReadRankEvents(Events(rank));
    return record.ok() && record->finished_with.has_value();
  };
  job.output = logs_.get();
  job.store = ServeUnixStore();
  job.temporary_folder = plan_.temporary_folder;
  return job;
}

JobReport TestJob::Report(const JobResult& result) const {
  JobFacts facts;
  facts.name = plan_.name;
  facts.result = result;
  facts.started = ToHostTime(result.start);
  facts.deadline = plan_.deadline;
  facts.straggler_grace = plan_.straggler_grace;
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    absl::StatusOr<RankRecord> record = ReadRankEvents(Events(rank));
    if (!record.ok()) Complain(record.status());
    facts.ranks.push_back(record.ok() ? *std::move(record) : RankRecord());
    facts.logs.push_back(absl::StrCat("rank", rank, ".log"));
  }
  const bool bazel = !plan_.logs_folder.empty();
  facts.logs_in = bazel ? "the test's outputs" : "this output";
  return JobReport(std::move(facts));
}

// The report first; then what the ranks said, the one to blame first.
void TestJob::Print(const JobReport& report) const {
  constexpr size_t kTail = 60;
  constexpr size_t kRanksShown = 4;
  for (const std::string& line : report.Lines()) std::cout << line << "\n";
  if (report.ok()) {
    PrintTail(logs_->path(0), "rank0.log", 1000);
  } else {
    std::vector<int> shown = report.blamed();
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      if (std::find(shown.begin(), shown.end(), rank) == shown.end()) shown.push_back(rank);
    }
    for (size_t i = 0; i < std::min(shown.size(), kRanksShown); ++i) {
      PrintTail(logs_->path(shown[i]), absl::StrCat("rank", shown[i], ".log"), kTail);
    }
  }
  std::cout.flush();
}

int TestJob::Run() {
  const PrematureExitFile premature_exit(plan_.premature_exit_file);
  if (!plan_.shard_status_file.empty()) std::ofstream(plan_.shard_status_file).flush();
  absl::StatusOr<std::unique_ptr<PrivateFolder>> folder =
      PrivateFolder::Create(plan_.temporary_folder);
  if (!folder.ok()) return Complain(folder.status());
  folder_ = *std::move(folder);
  absl::StatusOr<std::unique_ptr<RankLogs>> logs = RankLogs::Create(
      plan_.logs_folder.empty() ? folder_->path() : plan_.logs_folder, plan_.ranks);
  if (!logs.ok()) return Complain(logs.status());
  logs_ = *std::move(logs);

  const absl::StatusOr<JobResult> result = RunJob(Options());
  if (!result.ok()) return Complain(result.status());
  const JobReport report = Report(*result);
  Print(report);
  int code = report.ExitCode();
  if (!plan_.xml_output_file.empty()) {
    const absl::Status written = WriteXml(plan_.xml_output_file, report.Xml());
    // Whoever reads the report must not take an older one for this.
    if (!written.ok() && code == 0) code = kSetUpError;
    if (!written.ok()) Complain(written);
  }
  return code;
}

int Main(int argc, char** argv) {
  absl::InitializeLog();
  const Environment environment = Environment::OfProcess();
  const std::optional<std::string> events = environment.Get(kEventsVariable);
  if (events.has_value()) return RunRank(argc, argv, *events);

  const int seed = static_cast<int>(absl::ToUnixMillis(absl::Now()) % 99999) + 1;
  absl::StatusOr<TestPlan> plan =
      PlanTest(std::vector<std::string>(argv, argv + argc), environment, seed);
  if (!plan.ok()) return Complain(plan.status());
  if (plan->only_list) return RunTests(argc, argv, nullptr);
  return TestJob(*std::move(plan)).Run();
}

}  // namespace
}  // namespace testing
}  // namespace muster

int main(int argc, char** argv) { return muster::testing::Main(argc, argv); }

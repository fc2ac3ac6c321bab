#include "muster/testing/contract/fault_job.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launched_store.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/output_sink.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/launch/unique_fd.h"
#include "muster/core/platform/endpoint.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/read_file.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/tcp_store_server.h"
#include "muster/testing/contract/cut_network.h"
#include "muster/testing/contract/fault_rank.h"
#include "muster/tools/process/child_process.h"

namespace muster::testing {
namespace {

constexpr absl::string_view kMark = "--fault_job";
constexpr char kRowFile[] = "row.json";

// As the launcher's own (tcp_launched_store.h), at an address of choice; and it tells in the end
// which keys are left.
class CountedStore final : public LaunchedStore {
 public:
  static LaunchedStoreFactory Serve(bool on_network, std::vector<std::string>* left) {
    return
        [=](const LaunchedStoreRequest& request) -> absl::StatusOr<std::unique_ptr<LaunchedStore>> {
          TcpStoreServer::Options options;
          options.world_size = request.world_size;
          options.token = request.token;
          options.served_by = absl::StrCat("the launcher, pid ", getpid());
          options.loss_grace = absl::Milliseconds(300);
          options.address = on_network ? absl::StrCat(CutNetwork::AddressOf(0), ":0")
                                       : UnixAddress(absl::StrCat(request.folder, "/store"));
          options.beyond_this_host = on_network;
          options.on_session = [tell = request.on_session](const SessionRecord& record) {
            const bool live = record.liveness == SessionRecord::Liveness::kLive;
            tell(record.rank, live ? std::nullopt : std::optional(record.reason));
          };
          absl::StatusOr<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::Start(options);
          if (!server.ok()) return server.status();
          return std::make_unique<CountedStore>(*std::move(server), left);
        };
  }

  CountedStore(std::unique_ptr<TcpStoreServer> server, std::vector<std::string>* left)
      : server_(std::move(server)), left_(left) {}
  ~CountedStore() override {
    // What the store says of its sessions is its own, and one record a name outlives a group (L8).
    for (const Entry& entry : server_->Entries("")) {
      const bool allowed = absl::StartsWith(entry.key, "session/") || entry.key == "group/train";
      if (!allowed) left_->push_back(absl::StrCat("key ", entry.key));
    }
  }

  std::string address() const override { return server_->address(); }
  void DeclareLost(int rank, absl::string_view reason) override {
    server_->DeclareLost(rank, reason);
  }

 private:
  const std::unique_ptr<TcpStoreServer> server_;
  std::vector<std::string>* const left_;
};

// The job of a cell. Everything but the store's thread happens on one thread, the launcher's, in
// its calls.
class FaultJob final : public OutputSink {
 public:
  FaultJob(const FaultCell& cell, std::string folder)
      : cell_(cell), folder_(std::move(folder)), ranks_(static_cast<size_t>(cell.n)) {
    seen_.ranks.resize(ranks_.size());
  }

  FaultObservation Run() {
    const absl::Status status = Prepare();
    if (status.ok()) {
      RunRanks();
    } else {
      seen_.trouble = status.ToString();
    }
    LookForPorts();
    return std::move(seen_);
  }

  void Write(int rank, OutputStream stream, absl::string_view bytes) override {
    if (stream == OutputStream::kErrors) {
      (void)!write(STDERR_FILENO, bytes.data(), bytes.size());
      return;
    }
    std::string& text = ranks_[static_cast<size_t>(rank)].text;
    text.append(bytes.data(), bytes.size());
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      OnLine(rank, text.substr(0, end));
      text.erase(0, end + 1);
    }
  }
  void Finish(int, OutputStream) override {}

 private:
  struct Rank {
    std::string text;
    UniqueFd fifo;
    pid_t pid = -1;
    bool ended = false;
  };

  absl::Status Prepare() {
    for (int rank = 0; rank < cell_.n; ++rank) {
      const std::string fifo = FifoOf(folder_, rank);
      if (mkfifo(fifo.c_str(), 0600) != 0) return absl::ErrnoToStatus(errno, fifo);
      // Both ways, so that nobody waits for the other in open().
      Of(rank).fifo = UniqueFd(open(fifo.c_str(), O_RDWR | O_CLOEXEC));
      if (!Of(rank).fifo.valid()) return absl::ErrnoToStatus(errno, fifo);
    }
    if (!cell_.needs_network()) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<CutNetwork>> network =
        CutNetwork::Create(cell_.fault == Fault::kDataPartition ? cell_.n : 2);
    if (!network.ok()) return network.status();
    network_ = *std::move(network);
    return absl::OkStatus();
  }

  void RunRanks() {
    const std::string temporary = folder_ + "/job";
    mkdir(temporary.c_str(), 0700);
    const absl::Duration patience =
        Expect(cell_).terminal +
        TimeoutScale() *
            (cell_.planted == Planted::kDetectionOff ? absl::Seconds(1) : absl::Seconds(20));
    JobOptions job;
    job.command = FaultRankCommand(cell_, folder_);
    job.ranks = cell_.n;
    job.environment = RanksEnvironment();
    job.rank_variables = [this](int rank) { return VariablesOf(rank); };
    job.store = CountedStore::Serve(network_ != nullptr, &seen_.left);
    job.output = this;
    job.temporary_folder = temporary;
    job.limits.timeout = patience;
    // What ends the others here is what they learn, and not the launcher.
    job.limits.suspicion_grace = job.limits.failure_grace = patience;
    job.in_order = [this](int rank, const RankExit& exit) {
      OnExit(rank, exit);
      return true;
    };
    const absl::StatusOr<JobResult> result = RunJob(job);
    if (!result.ok()) {
      seen_.trouble = result.status().ToString();
      return;
    }
    for (const LeftProcess& process : result->left) seen_.left.push_back(process.ToString());
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(temporary, error)) {
      seen_.left.push_back(absl::StrCat("file ", entry.path().filename().string()));
    }
  }

  Environment RanksEnvironment() const {
    Environment::Variables variables = Environment::OfProcess().variables();
    // Who ends by exit() while others run leaves threads, which TSan would make its own exit code
    // of.
    absl::StrAppend(&variables["TSAN_OPTIONS"], ":report_thread_leaks=0");
    if (cell_.planted == Planted::kRollbackSkipped) {
      variables["MUSTER_FAULTS"] = "pool.rollback=fail(rank=0)";
    }
    return Environment(std::move(variables));
  }

  std::map<std::string, std::string> VariablesOf(int rank) const {
    if (network_ == nullptr) return {};
    const bool apart = cell_.fault == Fault::kDataPartition;
    return network_->VariablesOf(apart ? rank : (rank == cell_.victim() ? 1 : 0));
  }

  Rank& Of(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  Rank& victim() { return Of(cell_.victim()); }

  void Tell(int rank, char what) { (void)!write(Of(rank).fifo.get(), &what, 1); }

  void OnLine(int rank, absl::string_view line) {
    RankReport& report = seen_.ranks[static_cast<size_t>(rank)];
    int64_t number = 0;
    if (absl::ConsumePrefix(&line, "@in_place ") && absl::SimpleAtoi(line, &number)) {
      report.in_place = true;
      Of(rank).pid = static_cast<pid_t>(number);
      const bool all = std::all_of(seen_.ranks.begin(), seen_.ranks.end(),
                                   [](const RankReport& one) { return one.in_place; });
      if (all) Strike();
    } else if (absl::ConsumePrefix(&line, "@known ") && absl::SimpleAtoi(line, &number)) {
      report.known = number;
    } else if (absl::ConsumePrefix(&line, "@terminal ") && absl::SimpleAtoi(line, &number)) {
      report.terminal = number;
    } else if (absl::ConsumePrefix(&line, "@ended ")) {
      report.ended = std::string(line);
    } else if (absl::ConsumePrefix(&line, "@left ")) {
      report.left = std::string(line);
    }
  }

  void Strike() {
    seen_.struck = HostNanoseconds();
    if (cell_.planted == Planted::kWrongBlame) return Tell(0, kStrike);
    const absl::Duration length = TimeoutsOf(cell_).disturbance;
    absl::Status done;
    switch (cell_.fault) {
      case Fault::kKill:
        kill(victim().pid, SIGKILL);
        break;
      case Fault::kStop:
        kill(victim().pid, SIGSTOP);
        break;
      case Fault::kNeverStarted:
        break;
      case Fault::kExit:
      case Fault::kThrow:
        Tell(cell_.victim(), kStrike);
        break;
      case Fault::kStuck:
        Tell(cell_.victim(), kStrike);
        if (cell_.phase == Phase::kReady) Tell(0, kStrike);
        break;
      case Fault::kPartition:
        done = network_->Cut(1);
        break;
      case Fault::kDataPartition:
        done = network_->Part();
        break;
      case Fault::kShortCut:
        done = network_->Cut(1);
        absl::SleepFor(length);  // its length is the fault
        done.Update(network_->Heal(1));
        break;
      case Fault::kShortStop:
      case Fault::kLongStop:
        kill(victim().pid, SIGSTOP);
        absl::SleepFor(length);
        kill(victim().pid, SIGCONT);
        break;
      case Fault::kStorePaused:
        done = PauseThisProcess(length);
        break;
    }
    if (cell_.phase == Phase::kWorking) Tell(0, kGoOn);
    if (cell_.harmless()) Tell(cell_.victim(), kGoOn);
    if (!done.ok()) seen_.trouble = done.ToString();
  }

  // A child of ours stops and continues us, and is gone then.
  static absl::Status PauseThisProcess(absl::Duration length) {
    return RunProcess({"/bin/sh", "-c",
                       absl::StrCat("kill -STOP $PPID; sleep ", absl::ToDoubleSeconds(length),
                                    "; kill -CONT $PPID")},
                      Environment::OfProcess(), MonotonicNow() + absl::Minutes(5))
        .status();
  }

  void OnExit(int rank, const RankExit& exit) {
    Of(rank).ended = true;
    seen_.ranks[static_cast<size_t>(rank)].exit = exit.ToString();
    for (int other = 0; other < cell_.n; ++other) {
      const bool waits_for_us = other == cell_.victim() || other == cell_.latecomer();
      if (!waits_for_us && !Of(other).ended) return;
    }
    // All that must end by themselves have: now the rest may.
    if (cell_.latecomer().has_value() && !Of(*cell_.latecomer()).ended) {
      Tell(*cell_.latecomer(), kGoOn);
    }
    if (victim().ended) return;
    Tell(cell_.victim(), kGoOn);
    if (cell_.fault == Fault::kStop) kill(victim().pid, SIGCONT);
  }

  // Of this network, where it is the job's alone.
  void LookForPorts() {
    if (network_ == nullptr) return;
    const absl::StatusOr<std::string> table = ReadFile("/proc/self/net/tcp");
    if (!table.ok()) return;
    for (const absl::string_view line : absl::StrSplit(*table, '\n')) {
      const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      constexpr absl::string_view kListens = "0A";
      if (words.size() > 3 && words[3] == kListens) {
        seen_.left.push_back(absl::StrCat("port ", words[1]));
      }
    }
  }

  const FaultCell cell_;
  const std::string folder_;
  std::vector<Rank> ranks_;
  std::unique_ptr<CutNetwork> network_;
  FaultObservation seen_;
};

int FaultJobMain(const std::string& name, const std::string& folder) {
  const std::optional<FaultCell> cell = FaultCell::Parse(name);
  if (!cell.has_value()) return 96;
  const FaultRow row = Judge(*cell, FaultJob(*cell, folder).Run());
  std::ofstream(folder + "/" + kRowFile) << row.ToJson() << "\n";
  return 0;
}

struct Running {
  size_t index;
  pid_t pid;
  std::string folder;
  absl::Time until;
};

std::string OwnProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::string LogOf(const std::string& folder) { return folder + "/log"; }

absl::StatusOr<Running> Start(const FaultCell& cell, size_t index) {
  // Bazel's own for a test has too long a path for the store's socket.
  std::string folder = "/tmp/fault-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return absl::ErrnoToStatus(errno, folder);
  std::vector<std::string> command = {OwnProgram(), std::string(kMark), cell.Name(), folder};
  if (cell.needs_network()) command = InNetworkOfItsOwn(command);
  const absl::StatusOr<pid_t> pid =
      StartProcess(command, Environment::OfProcess(), {LogOf(folder), LogOf(folder)});
  if (!pid.ok()) return pid.status();
  return Running{index, *pid, folder, MonotonicNow() + TimeoutScale() * absl::Seconds(120)};
}

// Its row, where it has written one.
FaultRow RowOf(const FaultCell& cell, const Running& one, const std::string& ended) {
  const absl::StatusOr<std::string> text = ReadFile(one.folder + "/" + kRowFile);
  const absl::StatusOr<std::string> log = ReadFile(LogOf(one.folder));
  absl::StatusOr<FaultRow> row = text.ok() ? FaultRow::FromJson(*text) : text.status();
  if (!row.ok()) {
    row = FaultRow::Of(cell, FaultRow::kFailed, absl::StrCat("its launcher ", ended));
  }
  if (row->verdict == FaultRow::kFailed && log.ok() && !log->empty()) {
    absl::StrAppend(&row->why, "\n", *log);
  }
  return *std::move(row);
}

}  // namespace

std::vector<FaultRow> RunFaultCells(const std::vector<FaultCell>& cells, int at_once,
                                    const std::function<void(const FaultRow&)>& done) {
  std::vector<FaultRow> rows(cells.size());
  const auto settle = [&](size_t index, FaultRow row) {
    rows[index] = std::move(row);
    if (done != nullptr) done(rows[index]);
  };
  const bool network_wanted = std::any_of(
      cells.begin(), cells.end(), [](const FaultCell& cell) { return cell.needs_network(); });
  const absl::Status networks = network_wanted ? NetworksCanBeMade() : absl::OkStatus();
  std::vector<Running> running;
  size_t next = 0;
  while (next < cells.size() || !running.empty()) {
    while (next < cells.size() && running.size() < static_cast<size_t>(at_once)) {
      const size_t index = next++;
      const FaultCell& cell = cells[index];
      if (const std::string why = WhyNoSense(cell); !why.empty()) {
        settle(index, FaultRow::Of(cell, FaultRow::kNoSense, why));
      } else if (cell.needs_network() && !networks.ok()) {
        settle(index, FaultRow::Of(cell, FaultRow::kSkipped, networks.message()));
      } else if (absl::StatusOr<Running> one = Start(cell, index); one.ok()) {
        running.push_back(*std::move(one));
      } else {
        settle(index, FaultRow::Of(cell, FaultRow::kFailed, one.status().ToString()));
      }
    }
    for (auto one = running.begin(); one != running.end();) {
      const std::optional<RankExit> exit =
          WaitForProcess(one->pid, MonotonicNow() + absl::Milliseconds(10));
      const bool late = !exit.has_value() && MonotonicNow() > one->until;
      if (!exit.has_value() && !late) {
        ++one;
        continue;
      }
      if (late) KillProcess(one->pid);
      settle(one->index, RowOf(cells[one->index], *one, late ? "hung" : exit->ToString()));
      std::error_code ignored;
      std::filesystem::remove_all(one->folder, ignored);
      one = running.erase(one);
    }
  }
  return rows;
}

std::optional<int> FaultProcessMain(int argc, char** argv) {
  if (IsFaultRank(argc, argv)) return FaultRankMain(argv);
  if (argc == 4 && argv[1] == kMark) return FaultJobMain(argv[2], argv[3]);
  return std::nullopt;
}

}  // namespace muster::testing

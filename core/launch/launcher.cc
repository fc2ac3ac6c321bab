#include "muster/core/launch/launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/private_folder.h"
#include "muster/core/launch/process_tree.h"
#include "muster/core/launch/program.h"
#include "muster/core/launch/rank_environment.h"
#include "muster/core/launch/rank_process.h"
#include "muster/core/launch/session_news.h"
#include "muster/core/launch/signal_gate.h"
#include "muster/core/launch/unique_fd.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/auth.h"

namespace muster {
namespace {

class Job {
 public:
  explicit Job(const JobOptions& options) : options_(options) {}
  ~Job() {
    if (!killed_) KillAll();
  }

  absl::Status Start();
  // Until every rank has ended.
  void Supervise();
  JobResult Finish();

 private:
  absl::Status Prepare();
  absl::Status StartRank(int rank, const std::string& program);

  // Waits for one thing to happen, at most until `until`, and handles it.
  void Step(absl::Time until);
  void TakeSignals();
  void Reap();
  void TakeNews();
  void Perform(const JobPolicy::Actions& actions);
  // Passes on what is there, and says how much it was; at the end of the stream closes it.
  size_t ReadFrom(RankProcess& rank, OutputStream stream);
  void CloseStream(RankProcess& rank, OutputStream stream);
  bool OutputIsFull() const;

  void BlameOutput(JobResult* result) const;
  void FindLeftBehind();
  void KillAll();
  void ReadRest();
  // Writes what is queued. False: `until` came before all of it had found a reader.
  bool WriteQueues(absl::Time until);

  const JobOptions& options_;
  // Whoever started them, it was not us.
  const ProcessIds bystanders_ = DescendantsNow();
  // In the order of making; what is made later needs what was made earlier.
  std::unique_ptr<SignalGate> signals_;
  ScopedSubreaper subreaper_;
  std::unique_ptr<PrivateFolder> folder_;
  std::string token_file_;
  std::shared_ptr<SessionNews> news_ = std::make_shared<SessionNews>();
  std::unique_ptr<LaunchedStore> store_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::vector<bool> ended_;
  absl::Time start_;
  std::unique_ptr<JobPolicy> policy_;
  std::vector<LeftProcess> left_;
  std::vector<FailedGroup> failed_groups_;
  bool killed_ = false;
};

// That the launcher was told to stop with, and not news or a message to the ranks.
bool AsksToStop(int signal) {
  switch (signal) {
    case SIGCHLD:
    case SIGPIPE:
    case SIGXFSZ:
    case SIGUSR1:
    case SIGUSR2:
      return false;
    default:
      return true;
  }
}

// For poll().
int MillisecondsUntil(absl::Time until) {
  if (until == absl::InfiniteFuture()) return -1;
  const absl::Duration left = std::max(until - MonotonicNow(), absl::ZeroDuration());
  // Up, not down: else the last millisecond would be a busy loop.
  return static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))), 60000));
}

absl::Status Job::Prepare() {
  absl::StatusOr<std::unique_ptr<SignalGate>> signals = SignalGate::Create();
  if (!signals.ok()) return signals.status();
  signals_ = *std::move(signals);
  if (!options_.store) return absl::OkStatus();

  if (!news_->valid()) return absl::ResourceExhaustedError("no descriptor for the store's news");
  std::string parent = options_.temporary_folder;
  if (parent.empty()) parent = TemporaryFolder(options_.environment);
  // The ranks are told of what is in it, and may change their folder first.
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(parent, error).string();
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot tell where the temporary folder \"", parent,
                                               "\" is: ", error.message(),
                                               "; give TMPDIR an absolute path"));
  }
  absl::StatusOr<std::unique_ptr<PrivateFolder>> folder = PrivateFolder::Create(absolute);
  if (!folder.ok()) return folder.status();
  folder_ = *std::move(folder);
  absl::StatusOr<std::string> token = RandomToken();
  if (!token.ok()) return token.status();
  absl::StatusOr<std::string> token_file = folder_->WriteFile("token", *token);
  if (!token_file.ok()) return token_file.status();
  token_file_ = *std::move(token_file);

  LaunchedStoreRequest request;
  request.world_size = options_.ranks;
  request.token = *std::move(token);
  request.folder = folder_->path();
  request.on_session = [news = news_](int rank, std::optional<std::string> lost) {
    news->Add({rank, std::move(lost)});
  };
  absl::StatusOr<std::unique_ptr<LaunchedStore>> store = options_.store(std::move(request));
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  return absl::OkStatus();
}

absl::Status Job::Start() {
  if (options_.ranks < 1 || options_.ranks > JobOptions::kMaxRanks) {
    return absl::InvalidArgumentError(absl::StrCat("the number of ranks is ", options_.ranks,
                                                   ": expected 1 to ", JobOptions::kMaxRanks));
  }
  if (options_.command.empty()) {
    return absl::InvalidArgumentError("no program is given: expected its path or name");
  }
  absl::StatusOr<std::string> program =
      FindProgram(options_.command[0],
                  options_.environment.Get("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
  if (!program.ok()) return program.status();
  absl::Status status = Prepare();
  if (!status.ok()) return status;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    status = StartRank(rank, *program);
    if (!status.ok()) return status;
    pids.push_back(ranks_.back()->pid());
  }
  start_ = MonotonicNow();
  policy_ = std::make_unique<JobPolicy>(std::move(pids), options_.limits, start_);
  return absl::OkStatus();
}

absl::Status Job::StartRank(int rank, const std::string& program) {
  RankProcess::Spec spec;
  spec.rank = rank;
  spec.program = program;
  spec.arguments = options_.command;
  RankVariables variables;
  variables.rank = rank;
  variables.ranks = options_.ranks;
  if (store_ != nullptr) {
    variables.store_address = store_->address();
    variables.token_file = token_file_;
  }
  if (options_.output != nullptr) variables.terminal_columns = options_.output->columns();
  if (options_.rank_variables) variables.more = options_.rank_variables(rank);
  spec.environment = RankEnvironment(options_.environment, variables);
  spec.signal_mask = signals_->mask_before();
  spec.child_action = signals_->child_action_before();
  absl::StatusOr<std::unique_ptr<RankProcess>> process = RankProcess::Start(spec);
  if (!process.ok()) return process.status();
  ranks_.push_back(*std::move(process));
  ended_.push_back(false);
  return absl::OkStatus();
}

void Job::Supervise() {
  while (!policy_->Done()) {
    Step(policy_->NextDeadline());
    const absl::Time now = MonotonicNow();
    if (now >= policy_->NextDeadline()) Perform(policy_->TimePassed(now));
  }
}

void Job::Step(absl::Time until) {
  std::vector<pollfd> fds = {{signals_->fd(), POLLIN, 0}};
  if (store_ != nullptr) fds.push_back({news_->fd(), POLLIN, 0});
  const bool full = OutputIsFull();
  struct Source {
    RankProcess* rank;
    OutputStream stream;
    size_t index;
  };
  std::vector<Source> sources;
  for (const std::unique_ptr<RankProcess>& rank : ranks_) {
    for (const OutputStream stream : {OutputStream::kOutput, OutputStream::kErrors}) {
      const UniqueFd& fd = stream == OutputStream::kOutput ? rank->output() : rank->errors();
      if (full || !fd.valid()) continue;
      sources.push_back({rank.get(), stream, fds.size()});
      fds.push_back({fd.get(), POLLIN, 0});
    }
  }
  std::vector<std::pair<OutputQueue*, size_t>> queues;
  if (options_.output != nullptr) {
    for (OutputQueue* queue : options_.output->Queues()) {
      if (queue->empty()) continue;
      queues.emplace_back(queue, fds.size());
      fds.push_back({queue->fd(), POLLOUT, 0});
    }
  }

  if (poll(fds.data(), fds.size(), MillisecondsUntil(until)) < 0) return;

  for (const auto& [queue, index] : queues) {
    if (fds[index].revents == 0) continue;
    queue->WriteSome();
    // As a program in a shell's pipe ends when nobody reads it any more.
    if (queue->broken()) Perform(policy_->OutputBroke(queue->error(), MonotonicNow()));
  }
  for (const Source& source : sources) {
    if (fds[source.index].revents != 0) ReadFrom(*source.rank, source.stream);
  }
  TakeSignals();
  TakeNews();
}

void Job::TakeNews() {
  for (const SessionNews::News& news : news_->Take()) {
    if (policy_ != nullptr) policy_->SessionChanged(news.rank, news.lost, MonotonicNow());
  }
}

void Job::TakeSignals() {
  for (const int signal : signals_->Take()) {
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      // A message to the ranks (write a checkpoint, say what you do), and no reason to end.
      for (size_t i = 0; i < ranks_.size(); ++i) {
        if (!ended_[i]) ranks_[i]->SignalAlone(signal);
      }
    } else if (AsksToStop(signal)) {
      Perform(policy_->Interrupted(signal, MonotonicNow()));
    }
  }
  Reap();
}

void Job::Reap() {
  while (true) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return;
    // A rank that fails because another one was lost ends after that news was there: it is read
    // first, so that the cause is known before its consequence.
    TakeNews();
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (ended_[i] || ranks_[i]->pid() != pid) continue;
      ended_[i] = true;
      const int rank = ranks_[i]->rank();
      const RankExit exit = RankExit::FromWaitStatus(status);
      const bool in_order = options_.in_order ? options_.in_order(rank, exit) : exit.ok();
      // Before the store is told of this end, which would become the cause of whatever comes next.
      if ((!exit.ok() || !in_order) && failed_groups_.empty() && store_ != nullptr &&
          policy_ != nullptr && !policy_->Failed()) {
        failed_groups_ = store_->FailedGroups();
      }
      if (policy_ != nullptr) Perform(policy_->RankEnded(rank, exit, in_order, MonotonicNow()));
    }
  }
}

void Job::Perform(const JobPolicy::Actions& actions) {
  for (const JobAction& action : actions) {
    const size_t rank = static_cast<size_t>(action.rank);
    switch (action.kind) {
      case JobAction::Kind::kSignal:
        if (!ended_[rank]) ranks_[rank]->Signal(action.signal);
        break;
      case JobAction::Kind::kDeclareLost:
        if (store_ != nullptr) store_->DeclareLost(action.rank, action.reason);
        break;
    }
  }
}

size_t Job::ReadFrom(RankProcess& rank, OutputStream stream) {
  const int fd = (stream == OutputStream::kOutput ? rank.output() : rank.errors()).get();
  char buffer[1 << 16];
  const ssize_t n = read(fd, buffer, sizeof(buffer));
  if (n > 0) {
    if (options_.output != nullptr) {
      options_.output->Write(rank.rank(), stream,
                             absl::string_view(buffer, static_cast<size_t>(n)));
    }
    return static_cast<size_t>(n);
  }
  if (n == 0 || (errno != EINTR && errno != EAGAIN)) CloseStream(rank, stream);
  return 0;
}

void Job::CloseStream(RankProcess& rank, OutputStream stream) {
  UniqueFd& fd = stream == OutputStream::kOutput ? rank.output() : rank.errors();
  if (!fd.valid()) return;
  fd.Reset();
  if (options_.output != nullptr) options_.output->Finish(rank.rank(), stream);
}

bool Job::OutputIsFull() const {
  if (options_.output == nullptr) return false;
  const std::vector<OutputQueue*> queues = options_.output->Queues();
  return std::any_of(queues.begin(), queues.end(), [](const OutputQueue* q) { return q->full(); });
}

JobResult Job::Finish() {
  JobResult result = policy_->Result(MonotonicNow());
  FindLeftBehind();
  // The reader of the output may be among those that are left.
  if (!left_.empty()) WriteQueues(MonotonicNow() + options_.limits.kill_grace);
  KillAll();
  if (!left_.empty()) {
    const std::vector<ProcessInfo> survivors = LivingDescendants(bystanders_);
    for (LeftProcess& process : left_) {
      process.ended = std::none_of(survivors.begin(), survivors.end(),
                                   [&](const ProcessInfo& s) { return s.pid == process.pid; });
    }
  }
  result.left = left_;
  result.failed_groups = failed_groups_;
  if (store_ != nullptr && !result.ok()) result.failed_groups_at_end = store_->FailedGroups();
  if (store_ != nullptr) {
    result.store_notice = store_->Notice();
    result.store_refused = store_->Refused();
  }
  result.BlameByRecord();
  ReadRest();
  // At the timeout, too, there is a moment for what was written before it.
  const absl::Time until =
      std::max(start_ + options_.limits.timeout, MonotonicNow() + options_.limits.failure_grace);
  if (!WriteQueues(until) && result.ok()) {
    result.timed_out = true;
    result.duration = MonotonicNow() - start_;
  }
  BlameOutput(&result);
  store_.reset();
  folder_.reset();
  return result;
}

// A job that lost output did not go well, though all its ranks did.
void Job::BlameOutput(JobResult* result) const {
  if (options_.output == nullptr) return;
  for (const OutputQueue* queue : options_.output->Queues()) {
    if (!queue->broken() || !result->ok()) continue;
    if (queue->error() == EPIPE) {
      result->interrupted_by = SIGPIPE;
    } else {
      result->output_error = strerror(queue->error());
    }
  }
}

void Job::FindLeftBehind() {
  // What a rank started may be on its way out, and nothing tells us when a grandchild ends.
  constexpr absl::Duration kLook = absl::Milliseconds(20);
  const absl::Time until = MonotonicNow() + options_.left_grace;
  std::vector<ProcessInfo> living;
  while (true) {
    Reap();
    living = LivingDescendants(bystanders_);
    // A rank that survived SIGKILL is the result's, not left behind by another.
    living.erase(std::remove_if(living.begin(), living.end(),
                                [&](const ProcessInfo& process) {
                                  return std::any_of(
                                      ranks_.begin(), ranks_.end(),
                                      [&](const auto& r) { return r->pid() == process.pid; });
                                }),
                 living.end());
    const absl::Time now = MonotonicNow();
    if (living.empty() || now >= until) break;
    Step(std::min(until, now + kLook));
  }
  for (const ProcessInfo& process : living) {
    LeftProcess left;
    left.pid = process.pid;
    left.command = process.command;
    int rank = 0;
    const std::optional<std::string> variable = VariableOfProcess(process.pid, "MUSTER_RANK");
    if (variable.has_value() && absl::SimpleAtoi(*variable, &rank)) left.rank = rank;
    left_.push_back(std::move(left));
  }
}

// Everything below this process, but for who was there before. Bounded: what is stuck in the kernel
// stays.
void Job::KillAll() {
  constexpr int kLookMs = 50;
  killed_ = true;
  if (signals_ == nullptr) return;
  ProcessIds spared = bystanders_;
  // A rank that is still there after the policy's end has had its SIGKILL and its time.
  for (size_t i = 0; policy_ != nullptr && policy_->Done() && i < ranks_.size(); ++i) {
    const std::optional<ProcessId> id = IdOfProcess(ranks_[i]->pid());
    if (!ended_[i] && id.has_value()) spared.insert(*id);
  }
  const absl::Time until = MonotonicNow() + options_.limits.kill_grace;
  while (true) {
    const int killed = KillChildren(spared);
    Reap();
    // Those that lost their parent to us just now come next.
    if (killed == 0 && LivingDescendants(spared).empty()) break;
    if (MonotonicNow() >= until) break;
    pollfd fd = {signals_->fd(), POLLIN, 0};
    poll(&fd, 1, kLookMs);
    for (const int signal : signals_->Take()) (void)signal;
  }
  Reap();
}

// All writers have ended, so what is in the pipes is all that will come, unless one of them
// survived or gave its end to a stranger: of those no more is taken, however fast they write.
void Job::ReadRest() {
  for (const std::unique_ptr<RankProcess>& rank : ranks_) {
    for (const OutputStream stream : {OutputStream::kOutput, OutputStream::kErrors}) {
      const UniqueFd& fd = stream == OutputStream::kOutput ? rank->output() : rank->errors();
      int waiting = 0;
      if (fd.valid() && ioctl(fd.get(), FIONREAD, &waiting) != 0) waiting = 0;
      size_t left = static_cast<size_t>(waiting);
      while (left > 0) {
        const size_t taken = ReadFrom(*rank, stream);
        if (taken == 0) break;
        left -= std::min(left, taken);
      }
      CloseStream(*rank, stream);
    }
  }
}

bool Job::WriteQueues(absl::Time until) {
  if (options_.output == nullptr) return true;
  const std::vector<OutputQueue*> queues = options_.output->Queues();
  while (true) {
    std::vector<pollfd> fds = {{signals_->fd(), POLLIN, 0}};
    std::vector<OutputQueue*> waiting;
    for (OutputQueue* queue : queues) {
      if (queue->empty()) continue;
      waiting.push_back(queue);
      fds.push_back({queue->fd(), POLLOUT, 0});
    }
    if (waiting.empty()) return true;
    if (MonotonicNow() >= until) return false;
    poll(fds.data(), fds.size(), MillisecondsUntil(until));
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (fds[i + 1].revents != 0) waiting[i]->WriteSome();
    }
    // A reader may take its time (a pager); a signal says that nobody will read, one stream or the
    // other.
    for (const int signal : signals_->Take()) {
      if (!AsksToStop(signal)) continue;
      for (OutputQueue* queue : queues) queue->Drop();
    }
  }
}

}  // namespace

absl::StatusOr<JobResult> RunJob(const JobOptions& options) {
  Job job(options);
  absl::Status status = job.Start();
  if (!status.ok()) return status;
  job.Supervise();
  return job.Finish();
}

}  // namespace muster

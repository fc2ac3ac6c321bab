#include "muster/core/store/tcp_store_server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/debugging/leak_check.h"
#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "muster/core/platform/fork_guard.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/tcp_address.h"
#include "muster/core/store/tcp_server_core.h"

namespace muster {
namespace {

using store_internal::Listener;
using store_internal::ResolvedAddress;
using store_internal::TcpServerCore;
using store_internal::TcpServerOptions;

// How long to wait for the control thread to do what takes it no time.
constexpr absl::Duration kPromptly = absl::Seconds(5);

absl::StatusOr<Listener> ListenOn(const TcpStoreServer::Options& options) {
  const absl::StatusOr<std::vector<ResolvedAddress>> resolved =
      store_internal::ResolveStore(options.address, MonotonicNow() + options.lookup_timeout);
  if (!resolved.ok()) return resolved.status();
  const ResolvedAddress& chosen = resolved->front();
  if ((!options.beyond_this_host || options.token.empty()) && !chosen.IsLoopback()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the store would listen on ", chosen.ToString(), " (", options.address,
                     "), where other hosts reach it: use 127.0.0.1, or give the job a secret "
                     "(MUSTER_TOKEN_FILE, "
                     "World::token; for a TcpStoreServer of your own also beyond_this_host)"));
  }
  return store_internal::Listen(chosen);
}

// What `read` finds on the control thread; nothing when that does not come to it.
template <class T, class Function>
std::vector<T> Read(ControlThread* control, Function read) {
  struct Shared {
    absl::Notification done;
    std::vector<T> values;
  };
  auto shared = std::make_shared<Shared>();
  control->Post([shared, read = std::move(read)] {
    shared->values = read();
    shared->done.Notify();
  });
  if (control->RunsHere() || !shared->done.WaitForNotificationWithTimeout(kPromptly)) return {};
  return shared->values;
}

// The other half is for the ranks, and for whatever else the process does.
size_t HalfOfTheDescriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<size_t>::max();
  return std::max<size_t>(1, limit.rlim_cur / 2);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpStoreServer>> TcpStoreServer::Start(const Options& options) {
  if (options.world_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a store for a world of ", options.world_size, " ranks: it has 1 or more"));
  }
  const size_t max_strangers = options.max_strangers.value_or(
      std::max(store_internal::kMaxStrangers, static_cast<size_t>(options.world_size)));
  if (max_strangers < 1) {
    return absl::InvalidArgumentError(
        "a store with max_strangers 0, to which nobody could connect: it must be 1 or more");
  }
  std::unique_ptr<ControlThread> own_thread;
  ControlThread* control = options.control_thread;
  if (control == nullptr) {
    absl::StatusOr<std::unique_ptr<ControlThread>> started = ControlThread::Start();
    if (!started.ok()) return started.status();
    own_thread = *std::move(started);
    control = own_thread.get();
  }
  const absl::StatusOr<Listener> listener = ListenOn(options);
  if (!listener.ok()) return listener.status();

  TcpServerOptions core_options;
  core_options.engine.world_size = options.world_size;
  core_options.engine.loss_grace = options.loss_grace;
  core_options.engine.ends_with_its_host = options.ends_with_its_host;
  core_options.engine.on_session = options.on_session;
  core_options.token = options.token;
  core_options.handshake_timeout = options.handshake_timeout;
  core_options.max_strangers = std::min(max_strangers, HalfOfTheDescriptors());
  core_options.first_word = options.first_word;
  core_options.max_queued = options.max_queued;
  core_options.max_queued_for_all = options.max_queued_for_all;
  core_options.user = options.user.value_or(geteuid());
  core_options.served_by = options.served_by;
  absl::StatusOr<std::shared_ptr<TcpServerCore>> core =
      TcpServerCore::Create(control, core_options, *listener);
  if (!core.ok()) return core.status();
  control->Post([core = *core] { core->Begin(); });
  return std::unique_ptr<TcpStoreServer>(new TcpStoreServer(std::move(own_thread), control,
                                                            *std::move(core), listener->ToString(),
                                                            listener->address.port));
}

TcpStoreServer::TcpStoreServer(std::unique_ptr<ControlThread> own_thread, ControlThread* control,
                               std::shared_ptr<TcpServerCore> core, std::string address,
                               uint16_t port)
    : own_thread_(std::move(own_thread)),
      control_(control),
      fork_generation_(ForkGeneration()),
      address_(std::move(address)),
      port_(port),
      core_(std::move(core)) {}

TcpStoreServer::~TcpStoreServer() {
  if (fork_generation_ != ForkGeneration()) {
    // A forked child: its copies of the sockets are closed, and nothing here may touch the event
    // loop.
    absl::IgnoreLeak(new std::shared_ptr<TcpServerCore>(core_));
    return;
  }
  if (control_->RunsHere()) {
    core_->Close([] {});
    LOG(ERROR) << "the store's server was destroyed on its control thread: its clients may not get "
                  "their last answers";
    return;
  }
  // Sessions that are still open here have been told by the caller, or are not told at all.
  Stop(absl::InfinitePast()).IgnoreError();
}

void TcpStoreServer::DeclareLost(int rank, absl::string_view reason) {
  control_->Post([core = core_, rank, reason = std::string(reason)] {
    core->engine().DeclareLost(rank, reason);
    core->Changed();
  });
}

std::vector<SessionRecord> TcpStoreServer::Sessions() const {
  return Read<SessionRecord>(control_, [core = core_] { return core->engine().Records(); });
}

std::vector<Entry> TcpStoreServer::Entries(absl::string_view prefix) const {
  return Read<Entry>(control_, [core = core_, prefix = std::string(prefix)] {
    return core->engine().Entries(prefix);
  });
}

StoreServerStatistics TcpStoreServer::Statistics() const {
  const std::vector<StoreServerStatistics> one = Read<StoreServerStatistics>(
      control_, [core = core_] { return std::vector{core->statistics()}; });
  return one.empty() ? StoreServerStatistics() : one.front();
}

absl::Status TcpStoreServer::Stop(absl::Time deadline) {
  if (control_->RunsHere()) {
    return absl::FailedPreconditionError(
        "the store's server cannot be stopped on its control thread, which has to serve meanwhile");
  }
  absl::MutexLock lock(&stop_mutex_);
  if (!stopped_.has_value()) stopped_ = StopOnce(deadline);
  return *stopped_;
}

void TcpStoreServer::StopWaiting() {
  absl::MutexLock lock(&drain_->mutex);
  drain_->over = true;
}

absl::Status TcpStoreServer::StopOnce(absl::Time deadline) {
  control_->Post([core = core_, drain = drain_] {
    core->Drain([drain] {
      absl::MutexLock lock(&drain->mutex);
      drain->over = true;
    });
  });
  {
    absl::MutexLock lock(&drain_->mutex);
    drain_->mutex.AwaitWithTimeout(absl::Condition(&drain_->over), deadline - MonotonicNow());
  }
  absl::Status result;
  std::vector<std::string> left;
  for (const SessionRecord& record : Sessions()) {
    if (record.liveness == SessionRecord::Liveness::kLive) left.push_back(record.Who());
  }
  if (!left.empty()) {
    result = absl::DeadlineExceededError(
        absl::StrCat("the store ended before its sessions: ", absl::StrJoin(left, ", "),
                     " had not left it in time"));
  }
  auto closed = std::make_shared<absl::Notification>();
  control_->Post([core = core_, closed] { core->Close([closed] { closed->Notify(); }); });
  if (!closed->WaitForNotificationWithTimeout(kPromptly)) {
    return absl::DeadlineExceededError(
        "the store's control thread did not close its connections: one of its tasks blocks");
  }
  return result;
}

}  // namespace muster

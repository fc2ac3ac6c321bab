#include "muster/tools/bench/store_bench.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/device.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/group_spec.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/endpoint.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/rendezvous/world.h"
#include "muster/core/store/store_server_statistics.h"
#include "muster/core/store/tcp_store_server.h"
#include "muster/tools/bench/subject.h"

namespace muster {
namespace bench {
namespace {

constexpr char kToken[] = "of-this-process-alone";

class NoCommunicator final : public Communicator {
 public:
  absl::Status Finalize(absl::Time) override { return absl::OkStatus(); }
  void Abort(const absl::Status&) noexcept override {}
  Holdings Held() const override { return {}; }
};

// Exchanges values of these sizes, one after the other, as the backend of this name does.
// store_bench_test compares.
class StandIn final : public Backend {
 public:
  StandIn(absl::string_view name, std::vector<size_t> exchanges)
      : name_(name), exchanges_(std::move(exchanges)) {}

  absl::string_view name() const override { return name_; }
  Capabilities capabilities() const override { return {}; }
  absl::Status Check(Device, const std::map<std::string, std::string>&) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const ConnectContext& context) override {
    for (size_t i = 0; i < exchanges_.size(); ++i) {
      absl::Status status = context.store
                                ->Exchange(absl::StrCat(name_, "/", i),
                                           std::string(exchanges_[i], 'x'), context.deadline)
                                .status();
      if (!status.ok()) return status;
    }
    return std::make_unique<NoCommunicator>();
  }

 private:
  const std::string name_;
  const std::vector<size_t> exchanges_;
};

void AddStandIns(BackendRegistry* backends) {
  // The port where it listens and its secret.
  backends->Register("reference", std::make_unique<StandIn>("reference", std::vector<size_t>{32}),
                     __FILE__, __LINE__);
  // The first one of gloo's addresses, then that all connections are there.
  backends->Register("gloo", std::make_unique<StandIn>("gloo", std::vector<size_t>{136, 0}),
                     __FILE__, __LINE__);
}

// A rank takes both ends of a connection and what its control thread needs.
absl::Status MakeRoomForDescriptors(int ranks) {
  const rlim_t needed = 128 + 8 * static_cast<rlim_t>(ranks);
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return absl::OkStatus();
  limit.rlim_cur = needed;
  if (limit.rlim_max >= needed && setrlimit(RLIMIT_NOFILE, &limit) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      ranks, " ranks in one process need ", needed, " descriptors, and ", limit.rlim_max,
      " are allowed: raise the limit (ulimit -n), or give fewer in ", "--store-ranks"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreBench>> StoreBench::Create(int ranks, const std::string& folder,
                                                               BackendRegistry* backends) {
  absl::Status status = MakeRoomForDescriptors(ranks);
  if (!status.ok()) return status;
  std::unique_ptr<StoreBench> bench = absl::WrapUnique(new StoreBench(ranks, backends));
  status = bench->Start(folder);
  if (!status.ok()) return status;
  return bench;
}

StoreBench::StoreBench(int ranks, BackendRegistry* backends)
    : ranks_(ranks), backends_(backends != nullptr ? backends : &stand_ins_) {
  AddStandIns(&stand_ins_);
}

absl::Status StoreBench::Start(const std::string& folder) {
  absl::StatusOr<std::unique_ptr<ControlThread>> control = ControlThread::Start();
  if (!control.ok()) return control.status();
  control_ = *std::move(control);
  TcpStoreServer::Options options;
  options.world_size = ranks_;
  // As `muster run` does: TCP where the path is too long for a socket.
  const std::string tcp = options.address;
  options.address = UnixAddress(absl::StrCat(folder, "/store"));
  options.token = kToken;
  options.served_by = "bench";
  options.control_thread = control_.get();
  absl::StatusOr<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::Start(options);
  if (absl::IsInvalidArgument(server.status())) {
    options.address = tcp;
    server = TcpStoreServer::Start(options);
  }
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  for (int rank = 0; rank < ranks_; ++rank) {
    threads_.emplace_back([this, rank] { RunRank(rank); });
  }
  return OnAllRanks(Step::kJoin);
}

StoreBench::~StoreBench() {
  // What a pool's end says was said to the log.
  if (!threads_.empty()) OnAllRanks(Step::kEnd).IgnoreError();
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<StoreCost> StoreBench::CreateAndClose(absl::string_view subject) {
  backend_ = std::string(absl::StripPrefix(subject, "muster/"));
  const StoreServerStatistics before = server_->Statistics();
  const absl::Duration server_before = ServerTime();
  absl::Status status = OnAllRanks(Step::kCreateAndClose);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(subject, ": ", status.message()));
  }
  const absl::Duration server_after = ServerTime();
  const StoreServerStatistics after = server_->Statistics();
  StoreCost cost;
  {
    absl::MutexLock lock(&mutex_);
    cost.slowest = slowest_;
  }
  cost.server_us = absl::ToDoubleMicroseconds(server_after - server_before) / ranks_;
  cost.requests = static_cast<double>(after.requests - before.requests) / ranks_;
  cost.bytes = static_cast<double>(after.bytes_received - before.bytes_received + after.bytes_sent -
                                   before.bytes_sent) /
               ranks_;
  return cost;
}

absl::Status StoreBench::OnAllRanks(Step step) {
  absl::MutexLock lock(&mutex_);
  step_ = step;
  ++steps_;
  running_ = ranks_;
  first_error_ = absl::OkStatus();
  slowest_ = absl::ZeroDuration();
  begun_.SignalAll();
  while (running_ > 0) done_.Wait(&mutex_);
  return first_error_;
}

void StoreBench::RunRank(int rank) {
  std::unique_ptr<GroupPool> pool;
  int64_t steps = 0;
  for (Step step = Step::kJoin; step != Step::kEnd;) {
    {
      absl::MutexLock lock(&mutex_);
      while (steps_ == steps) begun_.Wait(&mutex_);
      steps = steps_;
      step = step_;
    }
    absl::Duration took;
    absl::Status status = Do(step, rank, &pool, &took);
    absl::MutexLock lock(&mutex_);
    if (first_error_.ok()) first_error_ = std::move(status);
    slowest_ = std::max(slowest_, took);
    if (--running_ == 0) done_.Signal();
  }
}

absl::Status StoreBench::Do(Step step, int rank, std::unique_ptr<GroupPool>* pool,
                            absl::Duration* took) const {
  switch (step) {
    case Step::kJoin: {
      World world;
      world.rank = world.local_rank = rank;
      world.size = world.local_size = ranks_;
      world.store_address = server_->address();
      world.token = kToken;
      world.launcher = "bench";
      PoolOptions options;
      options.heartbeat_timeout = absl::InfiniteDuration();  // beats are no part of it
      options.backends = backends_;
      absl::StatusOr<std::unique_ptr<GroupPool>> made = GroupPool::Create(world, options);
      if (!made.ok()) return made.status();
      *pool = *std::move(made);
      return absl::OkStatus();
    }
    case Step::kCreateAndClose: {
      GroupSpec spec;
      spec.name = absl::StrCat("bench.", backend_);
      spec.backend = backend_;
      spec.setup_timeout = kStepTimeout;
      spec.close_timeout = kStepTimeout;
      const absl::Time begin = MonotonicNow();
      absl::StatusOr<GroupLease> lease = (*pool)->Acquire(spec);
      if (!lease.ok()) return lease.status();
      absl::Status status = lease->Close();
      *took = MonotonicNow() - begin;
      return status;
    }
    case Step::kEnd:
      pool->reset();
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Duration StoreBench::ServerTime() const {
  absl::Duration time;
  absl::Notification read;
  control_->Post([&time, &read] {
    timespec used = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    time = absl::DurationFromTimespec(used);
    read.Notify();
  });
  read.WaitForNotification();
  return time;
}

}  // namespace bench
}  // namespace muster

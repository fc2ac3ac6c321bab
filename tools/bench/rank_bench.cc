#include "muster/tools/bench/rank_bench.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/group_spec.h"
#include "muster/core/launch/launched_store.h"
#include "muster/core/launch/tcp_launched_store.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/rendezvous/world.h"
#include "muster/core/store/tcp_store.h"
#include "muster/tools/bench/gloo_subject.h"
#include "muster/tools/bench/muster_subject.h"
#include "muster/tools/bench/peer_subject.h"
#include "muster/tools/bench/peers.h"
#include "muster/tools/bench/schedule.h"

namespace muster {
namespace bench {
namespace {

constexpr char kGloo[] = "gloo";
constexpr char kGlooPrompt[] = "gloo/prompt";
constexpr char kGlooFile[] = "gloo/file";
constexpr absl::string_view kOwn = "muster/";
// How long a peer may take to start: an import of torch on a busy machine.
constexpr absl::Duration kPeerStart = absl::Minutes(2);
// How long the survivors have been waiting when the rank dies.
constexpr absl::Duration kBeforeTheKill = absl::Milliseconds(50);

absl::Status About(absl::string_view what, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
}

// The same clock in every process of a host.
int64_t HostNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// With as little between the time and the end of the call as can be: the file is there already.
absl::Status WriteTime(int fd, int64_t nanoseconds) {
  const std::string text = absl::StrCat(nanoseconds, "\n");
  if (write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, "cannot write a time");
}

absl::StatusOr<int> OpenNew(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", path));
  return fd;
}

}  // namespace

std::string KilledFile(const std::string& job_folder) {
  return absl::StrCat(job_folder, "/killed");
}

std::string SurvivorFile(const std::string& job_folder, int rank) {
  return absl::StrCat(job_folder, "/survivor", rank);
}

absl::StatusOr<std::unique_ptr<RankBench>> RankBench::Create(const World& world,
                                                             const Environment& environment,
                                                             const RankTask& task) {
  std::unique_ptr<RankBench> bench = absl::WrapUnique(new RankBench(world, task));
  absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::Create(world);
  if (!pool.ok()) return pool.status();
  bench->pool_ = *std::move(pool);
  GroupSpec spec;
  spec.name = "bench.sync";
  spec.backend = "reference";
  spec.setup_timeout = kStepTimeout;
  // A peer may take this long to start on another rank.
  spec.operation_timeout = kPeerStart + kStepTimeout;
  spec.close_timeout = kStepTimeout;
  absl::StatusOr<GroupLease> sync = bench->pool_->Acquire(spec);
  if (!sync.ok()) return sync.status();
  bench->sync_ = *std::move(sync);
  absl::Status status = bench->AddSubjects(environment);
  if (!status.ok()) return status;
  return bench;
}

absl::Status RankBench::AddSubjects(const Environment& environment) {
  std::vector<PeerSubject*> peers;
  for (const std::string& name : task_.subjects) {
    absl::string_view backend = name;
    if (absl::ConsumePrefix(&backend, kOwn)) {
      subjects_.push_back(std::make_unique<MusterSubject>(pool_.get(), std::string(backend)));
    } else if (name == kGloo || name == kGlooPrompt || name == kGlooFile) {
      absl::StatusOr<std::shared_ptr<::gloo::rendezvous::Store>> store =
          name == kGlooFile ? GlooFileStore(task_.job_folder) : ConnectGlooStore();
      if (!store.ok()) return About(name, store.status());
      subjects_.push_back(std::make_unique<GlooSubject>(name, world_.rank, world_.size,
                                                        *std::move(store),
                                                        /*prompt=*/name == kGlooPrompt));
    } else {
      absl::StatusOr<std::unique_ptr<PeerSubject>> peer = PeerSubject::Start(
          PeerSetup(name, task_.options, environment, task_.folder,
                    absl::StrCat(task_.job_folder, "/", name), world_.rank, world_.size));
      if (!peer.ok()) return peer.status();
      peers.push_back(peer->get());
      subjects_.push_back(*std::move(peer));
    }
  }
  for (PeerSubject* peer : peers) {
    absl::Status status = peer->WaitUntilReady(kPeerStart);
    if (!status.ok()) return status;
  }
  return About("after the set-up", sync_->Barrier());
}

// Collective, the first time: rank 0 serves and says where.
absl::StatusOr<std::shared_ptr<::gloo::rendezvous::Store>> RankBench::ConnectGlooStore() {
  if (gloo_client_ != nullptr) return GlooStoreOver(gloo_client_.get(), control_.get());
  std::array<uint8_t, 64> address = {};
  if (world_.rank == 0) {
    LaunchedStoreRequest request;
    request.world_size = world_.size;
    request.token = world_.token;
    absl::StatusOr<std::unique_ptr<LaunchedStore>> server = ServeTcpStore()(request);
    if (!server.ok()) return server.status();
    gloo_server_ = *std::move(server);
    const std::string text = gloo_server_->address();
    if (text.size() >= address.size()) {
      return absl::InternalError(absl::StrCat("the store's address is too long: ", text));
    }
    std::copy(text.begin(), text.end(), address.begin());
  }
  absl::Status status = sync_->Broadcast(Buffer::Of(absl::MakeSpan(address)), 0);
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<ControlThread>> control = ControlThread::Start();
  if (!control.ok()) return control.status();
  control_ = *std::move(control);
  TcpStore::Options options;
  options.address = reinterpret_cast<const char*>(address.data());
  options.token = world_.token;
  options.session.rank = world_.rank;
  options.session.world_size = world_.size;
  options.session.host = "localhost";
  options.session.pid = getpid();
  options.session.incarnation = std::random_device()();
  options.deadline = MonotonicNow() + kStepTimeout;
  options.control_thread = control_.get();
  absl::StatusOr<std::unique_ptr<TcpStore>> client = TcpStore::Connect(options);
  if (!client.ok()) return client.status();
  gloo_client_ = *std::move(client);
  return GlooStoreOver(gloo_client_.get(), control_.get());
}

absl::Status RankBench::Rounds(const std::string& case_name, Turn turn,
                               std::vector<Sample>* samples) {
  const uint64_t seed = task_.options.seed.value_or(0);
  for (int round = -task_.options.warmup; round < task_.options.repetitions; ++round) {
    for (int index : RoundOrder(seed, round, static_cast<int>(subjects_.size()))) {
      Subject& subject = *subjects_[static_cast<size_t>(index)];
      absl::Status status = sync_->Barrier();
      if (!status.ok()) return About(absl::StrCat("before a turn of ", subject.name()), status);
      const absl::StatusOr<absl::Duration> time = turn(subject);
      if (!time.ok()) {
        return About(absl::StrCat(subject.name(), ", ", case_name, ", round ", round),
                     time.status());
      }
      std::array<double, 1> us = {absl::ToDoubleMicroseconds(*time)};
      status = sync_->AllReduce(Buffer::Of(absl::MakeSpan(us)), ReduceOp::kMax);
      if (!status.ok()) return About(absl::StrCat("after a turn of ", subject.name()), status);
      if (round >= 0 && world_.rank == 0) samples->push_back({case_name, subject.name(), us[0]});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sample>> RankBench::CreateDestroy() {
  std::vector<Sample> samples;
  absl::Status status = Rounds(
      absl::StrCat("create_destroy_", world_.size, "_ranks"),
      [](Subject& subject) { return subject.CreateAndDestroy(); }, &samples);
  if (!status.ok()) return status;
  return samples;
}

absl::StatusOr<std::vector<Sample>> RankBench::Collective() {
  for (const std::unique_ptr<Subject>& subject : subjects_) {
    absl::Status status = subject->Open();
    if (!status.ok()) return About(absl::StrCat(subject->name(), ", open"), status);
  }
  std::vector<Sample> samples;
  for (int64_t bytes : task_.options.sizes) {
    absl::Status status = Rounds(
        absl::StrCat("all_reduce_f32_", FormatBytes(bytes), "_", world_.size, "_ranks"),
        [bytes](Subject& subject) {
          return subject.AllReduce(bytes / static_cast<int64_t>(sizeof(float)),
                                   IterationsFor(bytes));
        },
        &samples);
    if (!status.ok()) return status;
  }
  for (const std::unique_ptr<Subject>& subject : subjects_) {
    // Raw gloo fails a rank whose peer goes first.
    absl::Status status = sync_->Barrier();
    if (status.ok()) status = subject->Close();
    if (!status.ok()) return About(absl::StrCat(subject->name(), ", close"), status);
  }
  return samples;
}

absl::Status RankBench::Detection() {
  Subject& subject = *subjects_[0];
  const bool victim = world_.rank == world_.size - 1;
  const absl::StatusOr<int> file =
      OpenNew(victim ? KilledFile(task_.job_folder) : SurvivorFile(task_.job_folder, world_.rank));
  if (!file.ok()) return file.status();
  absl::Status status = subject.Open();
  if (status.ok()) status = subject.AllReduce(1, 1).status();
  if (status.ok()) status = sync_->Barrier();
  if (!status.ok()) return About(absl::StrCat(subject.name(), ", before the kill"), status);
  if (victim) {
    absl::SleepFor(kBeforeTheKill);
    status = WriteTime(*file, HostNanoseconds());
    if (status.ok()) kill(getpid(), SIGKILL);
    return status;
  }
  const absl::Status noticed = subject.AllReduce(1, 1).status();
  const int64_t now = HostNanoseconds();
  if (noticed.ok()) {
    return absl::InternalError(absl::StrCat(subject.name(), ": an all_reduce without rank ",
                                            world_.size - 1, " went well"));
  }
  status = WriteTime(*file, now);
  close(*file);
  return status;
}

absl::Status RankBench::Close() {
  absl::Status status = sync_->Barrier();
  subjects_.clear();
  gloo_client_.reset();
  control_.reset();
  // The clients leave before their server does.
  if (status.ok()) status = sync_->Barrier();
  gloo_server_.reset();
  if (status.ok()) status = sync_.Close();
  if (status.ok()) status = pool_->Close(kStepTimeout);
  return About("close", status);
}

}  // namespace bench
}  // namespace muster

// What the conformance suite does not know: how this backend words things, and what each patch in
// third_party/gloo/patches is for.
#include "muster/backends/gloo/gloo_backend.h"

#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gloo/context.h"
#include "gtest/gtest.h"
#include "muster/backends/gloo/gloo_test_ranks.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/device.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/platform/cancellation.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/observed_thread.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/memory_connect_store.h"

namespace muster {
namespace {

absl::Time Later() { return MonotonicNow() + TimeoutScale() * absl::Seconds(20); }

OperationOptions Until(absl::Time deadline) {
  OperationOptions options;
  options.deadline = deadline;
  return options;
}

sem_t stands_still;
sem_t go_on;

void StandStill(int) {
  sem_post(&stands_still);
  while (sem_wait(&go_on) != 0) {
  }
}

// A thread of this process does nothing while it lives.
class StalledThread {
 public:
  explicit StalledThread(int task) {
    sem_init(&stands_still, 0, 0);
    sem_init(&go_on, 0, 0);
    struct sigaction action = {};
    action.sa_handler = StandStill;
    sigaction(SIGUSR1, &action, &before_);
    EXPECT_EQ(syscall(SYS_tgkill, getpid(), task, SIGUSR1), 0);
    while (sem_wait(&stands_still) != 0) {
    }
  }
  ~StalledThread() {
    sem_post(&go_on);
    sigaction(SIGUSR1, &before_, nullptr);
  }

 private:
  struct sigaction before_ = {};
};

// Ranks on threads.
class GlooBackendTest : public ::testing::Test {
 protected:
  absl::Status Connect(int rank, ConnectStore* store, Cancellation* cancellation = nullptr) {
    ConnectContext context;
    context.rank = rank;
    context.size = static_cast<int>(comms_.size());
    context.store = store;
    context.deadline = Later();
    context.cancellation = cancellation;
    absl::StatusOr<std::unique_ptr<Communicator>> made = backend_.Connect(context);
    if (!made.ok()) return made.status();
    comms_[static_cast<size_t>(rank)] = *std::move(made);
    return absl::OkStatus();
  }
  void ConnectBoth() { ConnectAll(2); }
  void ConnectAll(int size) {
    hub_ = std::make_unique<testing::MemoryConnectHub>(size);
    comms_.clear();
    comms_.resize(static_cast<size_t>(size));
    const absl::StatusOr<int> last_loop =
        ConnectGlooRanks(*hub_, size, Later(),
                         [this](int rank, ConnectStore* store) { return Connect(rank, store); });
    ASSERT_TRUE(last_loop.ok()) << last_loop.status();
    last_loop_ = *last_loop;
  }

  GlooBackend backend_;
  std::unique_ptr<testing::MemoryConnectHub> hub_ = std::make_unique<testing::MemoryConnectHub>(2);
  std::vector<std::unique_ptr<Communicator>> comms_{2};
  int last_loop_ = 0;  // gloo's thread of the last rank
};

TEST_F(GlooBackendTest, ALostPeerIsNamed) {
  ConnectBoth();
  comms_[1]->Abort(absl::AbortedError("gone"));
  const absl::Status status = comms_[0]->Barrier(Until(Later()));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StartsWith(status.message(), "lost contact with rank 1: ")) << status;
  // Where in gloo it was seen is of no use to anybody.
  EXPECT_FALSE(absl::StrContains(status.message(), ".cc:")) << status;
}

// A SIGPIPE would end this test. gloo's thread stands still, so only writing can find out that the
// peer is gone: the first write makes its side refuse, the later ones fail.
TEST_F(GlooBackendTest, WritesToAPeerThatIsGoneRaiseNoSignal) {
  ConnectBoth();
  float value = 0;
  const PeerTransfer send = {PeerTransfer::Kind::kSend, 0, Buffer::Of(value)};
  absl::Status status;
  std::optional<ObservedThread> sender;
  {
    const StalledThread stalled(last_loop_);
    comms_[0]->Abort(absl::AbortedError("gone"));
    sender.emplace([&] { status = comms_[1]->Transfer({send, send, send, send}, Until(Later())); });
    EXPECT_TRUE(sender->AwaitAsleep(Later()));  // it has written, or found that it cannot
  }
  sender->join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

// Each connection waits for a turn of gloo's thread when it is cut: that stands still here.
TEST_F(GlooBackendTest, AnAbortTellsEveryPeerBeforeItWaits) {
  ConnectAll(3);
  std::optional<std::thread> aborter;
  {
    const StalledThread stalled(last_loop_);
    aborter.emplace([&] { comms_[2]->Abort(absl::AbortedError("enough")); });
    for (int peer = 0; peer < 2; ++peer) {
      float value = 0;
      const absl::Status status =
          comms_[static_cast<size_t>(peer)]->Receive(Buffer::Of(value), 2, Until(Later()));
      EXPECT_TRUE(absl::StartsWith(status.message(), "lost contact with rank 2")) << status;
    }
  }
  aborter->join();
}

// gloo's thread of rank 1 stands still, so rank 0's bytes fill the sockets and stop halfway.
TEST_F(GlooBackendTest, AbortWakesAnOperationInTheMiddleOfItsBytes) {
  ConnectBoth();
  std::vector<float> here(16 << 20);
  std::vector<float> there(16 << 20);
  absl::Status sent;
  absl::Status received;
  std::thread receiver;
  {
    const StalledThread stalled(last_loop_);
    receiver = std::thread([&] {
      received = comms_[1]->Receive(Buffer::Of(absl::MakeSpan(there)), 0, Until(Later()));
    });
    ObservedThread sender([&] {
      sent = comms_[0]->Send(Buffer::Of(absl::MakeSpan(here)), 1, Until(absl::InfiniteFuture()));
    });
    EXPECT_TRUE(sender.AwaitAsleep(Later()));  // the sockets are full
    comms_[0]->Abort(absl::AbortedError("enough"));
    sender.join();
  }
  EXPECT_EQ(sent, absl::AbortedError("enough"));
  receiver.join();
  EXPECT_TRUE(absl::IsUnavailable(received)) << received;
}

// The first message comes shortly before the deadline, the second one when the operation is over,
// or at last in time for a wait that started anew with the first one: between the two lies a second
// and more for the operation to end in. The sleep is what is checked, how far into its time the
// operation is; it orders nothing. Where it overslept, the first message was too late to show
// anything, so once more.
TEST_F(GlooBackendTest, TheDeadlineBoundsTheWholeOperation) {
  const absl::Duration allowed = absl::Milliseconds(1500) * TimeoutScale();
  float first = 0;
  float second = 0;
  for (int attempt = 0; first == 0 && attempt < 5; ++attempt) {
    ConnectBoth();
    const absl::Time deadline = MonotonicNow() + allowed;
    absl::Notification returned;
    std::thread slow([&] {
      float value = 1;
      absl::SleepFor(deadline - 0.1 * allowed - MonotonicNow());
      comms_[1]->Send(Buffer::Of(value), 0, Until(Later())).IgnoreError();
      returned.WaitForNotificationWithTimeout(0.85 * allowed);
      comms_[1]->Send(Buffer::Of(value), 0, Until(Later())).IgnoreError();
    });
    const absl::Status status =
        comms_[0]->Transfer({{PeerTransfer::Kind::kReceive, 1, Buffer::Of(first)},
                             {PeerTransfer::Kind::kReceive, 1, Buffer::Of(second)}},
                            Until(deadline));
    returned.Notify();
    EXPECT_EQ(status,
              absl::DeadlineExceededError("the deadline passed while this rank waited for rank 1"));
    slow.join();
  }
  EXPECT_EQ(first, 1) << "no first message came before the deadline";
}

TEST_F(GlooBackendTest, TheDeadlineNamesThoseWhoDidNotComeInTime) {
  ConnectAll(4);
  float values[4] = {};
  std::thread sender([&] {
    float value = 1;
    EXPECT_TRUE(comms_[2]->Send(Buffer::Of(value), 0, Until(Later())).ok());
    EXPECT_EQ(
        comms_[2]->Barrier(Until(MonotonicNow())),
        absl::DeadlineExceededError("the deadline passed while this rank waited for its peers"));
  });
  std::vector<PeerTransfer> receives;
  for (int peer = 1; peer < 4; ++peer) {
    receives.push_back({PeerTransfer::Kind::kReceive, peer, Buffer::Of(values[peer])});
  }
  const absl::Time deadline = MonotonicNow() + TimeoutScale() * absl::Seconds(1);
  EXPECT_EQ(
      comms_[0]->Transfer(receives, Until(deadline)),
      absl::DeadlineExceededError("the deadline passed while this rank waited for ranks 1, 3"));
  sender.join();
}

// No element is touched: there is no such number of them.
TEST_F(GlooBackendTest, WithoutMemoryForAnOperationItSaysHowMuchWasAskedFor) {
  ConnectBoth();
  std::vector<uint16_t> memory(1);
  Buffer buffer;
  buffer.data = memory.data();
  buffer.count = int64_t{3} << 60;
  buffer.dtype = DataType::kF16;
  const absl::Status status = comms_[0]->AllReduce(buffer, buffer, ReduceOp::kSum, Until(Later()));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StartsWith(status.message(),
                               "no memory for what an operation on "
                               "6917529027641081856 bytes needs beside its buffers"))
      << status;
}

// Whether all of `descriptors` are closed in a child that is forked now, and `also` holds there.
bool ForkedChildHasNone(const std::set<int>& descriptors, absl::FunctionRef<bool()> also) {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    int open = 0;
    for (int fd : descriptors) open += fcntl(fd, F_GETFD) != -1 ? 1 : 0;
    _exit(open == 0 && also() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

// Those of this process, without that of the directory itself.
std::set<int> Descriptors() {
  std::set<int> result = EntriesOf("/proc/self/fd");
  for (auto fd = result.begin(); fd != result.end();) {
    fd = fcntl(*fd, F_GETFD) == -1 ? result.erase(fd) : std::next(fd);
  }
  return result;
}

std::set<int> Without(std::set<int> from, const std::set<int>& these) {
  for (int number : these) from.erase(number);
  return from;
}

TEST_F(GlooBackendTest, AForkedChildHoldsNoConnection) {
  const std::set<int> before = Descriptors();
  ConnectBoth();
  const std::set<int> ours = Without(Descriptors(), before);
  int64_t held = 0;
  for (const auto& comm : comms_) held += comm->Held().file_descriptors;
  EXPECT_EQ(static_cast<int64_t>(ours.size()), held);
  EXPECT_TRUE(ForkedChildHasNone(ours, [&] {
    const bool refused = absl::IsFailedPrecondition(comms_[0]->Barrier(Until(Later())));
    comms_.clear();  // must not wait for a thread that is not there
    return refused;
  }));
  std::thread peer([&] { EXPECT_TRUE(comms_[1]->Barrier(Until(Later())).ok()); });
  EXPECT_TRUE(comms_[0]->Barrier(Until(Later())).ok());
  peer.join();
}

TEST_F(GlooBackendTest, AChildForkedDuringASlowConnectHoldsNothing) {
  comms_.resize(2);
  const std::set<int> before = Descriptors();
  Cancellation cancellation;
  std::thread waiting(
      [&] { EXPECT_FALSE(Connect(0, hub_->ForRank(0, &cancellation).get(), &cancellation).ok()); });
  EXPECT_TRUE(hub_->AwaitWaiting(1, Later()));
  const std::set<int> ours = Without(Descriptors(), before);
  EXPECT_EQ(ours.size(), 4u);  // of the event loop three, and the listening socket
  EXPECT_TRUE(ForkedChildHasNone(ours, [] { return true; }));
  cancellation.Cancel(absl::AbortedError("too slow"));
  waiting.join();
}

// Fails once the others know where this rank was.
class FailingStore : public ConnectStore {
 public:
  explicit FailingStore(ConnectStore* store) : store_(store) {}
  absl::Status Set(absl::string_view key, absl::string_view value) override {
    return store_->Set(key, value);
  }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    return store_->Get(key, deadline);
  }
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key, absl::string_view value,
                                                    absl::Time deadline) override {
    store_->Exchange(key, value, deadline).status().IgnoreError();
    return absl::UnavailableError("the store was lost");
  }

 private:
  ConnectStore* const store_;
};

TEST_F(GlooBackendTest, AFailedConnectWritesNothing) {
  ::testing::internal::CaptureStderr();
  for (int attempt = 0; attempt < 10; ++attempt) {
    testing::MemoryConnectHub hub(2);
    Cancellation cancellation;
    std::thread survivor([&] {
      std::unique_ptr<ConnectStore> store = hub.ForRank(0, &cancellation);
      EXPECT_FALSE(Connect(0, store.get(), &cancellation).ok());
    });
    std::unique_ptr<ConnectStore> store = hub.ForRank(1, nullptr);
    FailingStore failing(store.get());
    EXPECT_EQ(Connect(1, &failing), absl::UnavailableError("the store was lost"));
    cancellation.Cancel(absl::AbortedError("rank 1 was lost"));
    survivor.join();
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(GlooBackendTest, AnAddressThatIsNotOursIsNamed) {
  testing::MemoryConnectHub hub(2);
  std::unique_ptr<ConnectStore> store = hub.ForRank(0, nullptr);
  ConnectContext context;
  context.size = 2;
  context.store = store.get();
  context.bind_address = "192.0.2.1";  // of the block that is kept for documentation
  const absl::Status status = backend_.Connect(context).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StartsWith(status.message(), "cannot open a gloo device on 192.0.2.1: "))
      << status;
}

TEST_F(GlooBackendTest, SaysWhatItDoesNotDo) {
  EXPECT_EQ(backend_.Check(Device::Cuda(1), {}),
            absl::InvalidArgumentError("the backend \"gloo\" works on cpu, not on cuda:1"));
  EXPECT_TRUE(BackendRegistry::Global().Find("gloo").ok());
}

// Otherwise the linker takes the gloo of libtorch for ours, without a word.
TEST(GlooNamespaceTest, IsOurs) {
  EXPECT_NE(std::string(typeid(::gloo::Context).name()).find("muster_gloo"), std::string::npos);
}

}  // namespace
}  // namespace muster

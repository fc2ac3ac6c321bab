// What the conformance suite does not know: how this backend words things, and what each patch in
// third_party/gloo/patches is for.
#include "muster/backends/gloo/gloo_backend.h"

#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gloo/context.h"
#include "gtest/gtest.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/device.h"
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

std::set<int> EntriesOf(const char* directory) {
  std::set<int> result;
  DIR* const dir = opendir(directory);
  while (const dirent* entry = readdir(dir)) {
    int number = 0;
    if (absl::SimpleAtoi(entry->d_name, &number)) result.insert(number);
  }
  closedir(dir);
  return result;
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

// Two ranks on threads.
class GlooBackendTest : public ::testing::Test {
 protected:
  absl::Status Connect(int rank, ConnectStore* store, Cancellation* cancellation = nullptr) {
    ConnectContext context;
    context.rank = rank;
    context.size = 2;
    context.store = store;
    context.deadline = Later();
    context.cancellation = cancellation;
    absl::StatusOr<std::unique_ptr<Communicator>> made = backend_.Connect(context);
    if (!made.ok()) return made.status();
    comms_[rank] = *std::move(made);
    return absl::OkStatus();
  }
  void ConnectBoth() {
    absl::Status first;
    std::thread zero([&] { first = Connect(0, hub_->ForRank(0, nullptr).get()); });
    // Its thread is there: what comes now is of rank 1.
    EXPECT_TRUE(hub_->AwaitWaiting(1, Later()));
    const std::set<int> before = EntriesOf("/proc/self/task");
    absl::Status second;
    std::thread one([&] { second = Connect(1, hub_->ForRank(1, nullptr).get()); });
    zero.join();
    one.join();
    ASSERT_TRUE(first.ok()) << first;
    ASSERT_TRUE(second.ok()) << second;
    // The kernel takes a moment to count out the threads that were joined.
    const absl::Time deadline = Later();
    std::vector<int> made;
    do {
      made.clear();
      for (int task : EntriesOf("/proc/self/task")) {
        if (before.count(task) == 0) made.push_back(task);
      }
    } while (made.size() > 1 && MonotonicNow() < deadline);
    ASSERT_EQ(made.size(), 1u);
    loop_of_rank_one_ = made[0];
  }

  GlooBackend backend_;
  std::unique_ptr<testing::MemoryConnectHub> hub_ = std::make_unique<testing::MemoryConnectHub>(2);
  std::unique_ptr<Communicator> comms_[2];
  int loop_of_rank_one_ = 0;
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
    const StalledThread stalled(loop_of_rank_one_);
    comms_[0]->Abort(absl::AbortedError("gone"));
    sender.emplace([&] { status = comms_[1]->Transfer({send, send, send, send}, Until(Later())); });
    EXPECT_TRUE(sender->AwaitAsleep(Later()));  // it has written, or found that it cannot
  }
  sender->join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

// It is found on gloo's thread: the exception ended the process.
TEST_F(GlooBackendTest, APeerThatSendsMoreThanWasAskedForEndsTheOperation) {
  ConnectBoth();
  std::vector<float> more(100);
  std::vector<float> less(50);
  absl::Status sent;
  std::thread sender(
      [&] { sent = comms_[1]->Send(Buffer::Of(absl::MakeSpan(more)), 0, Until(Later())); });
  const absl::Status received =
      comms_[0]->Receive(Buffer::Of(absl::MakeSpan(less)), 1, Until(Later()));
  EXPECT_TRUE(absl::IsUnavailable(received)) << received;
  EXPECT_TRUE(absl::StrContains(received.message(), "mismatch")) << received;
  sender.join();
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
    const StalledThread stalled(loop_of_rank_one_);
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
    hub_ = std::make_unique<testing::MemoryConnectHub>(2);
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
    EXPECT_EQ(status, absl::DeadlineExceededError(
                          "the deadline passed while this rank waited for its peers"));
    slow.join();
  }
  EXPECT_EQ(first, 1) << "no first message came before the deadline";
}

TEST_F(GlooBackendTest, AForkedChildHoldsNoConnection) {
  ConnectBoth();
  std::vector<int> connections;
  for (int fd : EntriesOf("/proc/self/fd")) {
    sockaddr_storage peer;
    socklen_t length = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        peer.ss_family == AF_INET) {
      connections.push_back(fd);
    }
  }
  EXPECT_EQ(connections.size(), 2u);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int open = 0;
    for (int fd : connections) open += fcntl(fd, F_GETFD) != -1 ? 1 : 0;
    const bool refused = absl::IsFailedPrecondition(comms_[0]->Barrier(Until(Later())));
    for (auto& comm : comms_) comm = nullptr;  // must not wait for a thread that is not there
    _exit(open == 0 && refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::thread peer([&] { EXPECT_TRUE(comms_[1]->Barrier(Until(Later())).ok()); });
  EXPECT_TRUE(comms_[0]->Barrier(Until(Later())).ok());
  peer.join();
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

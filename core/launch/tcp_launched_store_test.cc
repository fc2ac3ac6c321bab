// The launcher with its real store: what a rank learns of the death of another.

#include "muster/core/launch/tcp_launched_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/launched_store.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/unique_fd.h"
#include "muster/core/lifecycle/group_record.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/rendezvous/world.h"
#include "muster/core/store/blocking_store.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/socket_folder.h"
#include "muster/core/store/store.h"
#include "muster/core/store/tcp_store.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::StartsWith;

absl::Duration Bound() { return TimeoutScale() * absl::Seconds(30); }

// --- A rank: "<what rank 0 does>", while every other one waits for the news of rank 0. With
// "see the record" rank 1 writes its failure before.

GroupRecord FailureOf(absl::string_view cause) {
  GroupRecord record;
  record.generation = 1;
  record.incarnations = {7};
  if (!cause.empty()) record.cause = absl::InternalError(cause);
  return record;
}

GroupRecord ClosedGroup() {
  GroupRecord record = FailureOf("");
  record.intent.emplace();
  record.intent->kind = CloseIntent::Kind::kClose;
  return record;
}

class Session {
 public:
  explicit Session(const World& world) : control_(*ControlThread::Start()) {
    TcpStore::Options options;
    options.address = world.store_address;
    options.token = world.token;
    options.session.rank = world.rank;
    options.session.world_size = world.size;
    options.session.host = "here";
    options.session.pid = getpid();
    options.session.incarnation = static_cast<uint64_t>(absl::GetCurrentTimeNanos());
    options.heartbeat_timeout = TimeoutScale() * absl::Seconds(1);
    options.deadline = MonotonicNow() + Bound();
    options.control_thread = control_.get();
    absl::StatusOr<std::unique_ptr<TcpStore>> store = TcpStore::Connect(options);
    if (!store.ok()) {
      std::cout << store.status() << std::endl;
      exit(90);
    }
    store_ = *std::move(store);
    // All are here before anything happens.
    Meet("all here", world);
  }

  void Meet(absl::string_view key, const World& world) {
    const auto met = BlockingStore(store_.get(), control_.get())
                         .Gather(key, world.rank, world.size, "", MonotonicNow() + Bound());
    if (!met.ok()) exit(91);
  }

  void Set(absl::string_view key, absl::string_view value) {
    const auto set = BlockingStore(store_.get(), control_.get())
                         .Set(key, value, Lifetime::kPersistent, MonotonicNow() + Bound());
    if (!set.ok()) exit(94);
  }

  // "killed by signal 9"
  std::string WaitForLossOf(int rank) {
    absl::Notification lost;
    std::string reason;
    const Store::WatchId watch =
        store_->Watch(SessionKey(rank), [&](absl::StatusOr<std::vector<WatchEvent>> events) {
          if (!events.ok() || lost.HasBeenNotified()) return;
          for (const WatchEvent& event : *events) {
            const absl::StatusOr<SessionRecord> record = SessionRecord::Decode(event.entry.value);
            if (!record.ok() || record->liveness != SessionRecord::Liveness::kLost) continue;
            reason = record->reason;
            lost.Notify();
            return;
          }
        });
    (void)watch;
    lost.WaitForNotificationWithTimeout(Bound());
    return reason;
  }

 private:
  std::unique_ptr<ControlThread> control_;
  std::unique_ptr<TcpStore> store_;
};

int RankMain(absl::string_view what) {
  const absl::StatusOr<World> world = WorldFromEnvironment(Environment::OfProcess());
  if (!world.ok()) return 92;
  Session session(*world);
  if (what == "see the record") {
    if (world->rank == 1) session.Set(GroupRecordKey("train"), FailureOf("rank 1: x").Encode());
    session.Meet("recorded", *world);
  }
  if (what == "end under the group" && world->rank == 0) {
    session.Set(GroupRecordKey("g"),
                FailureOf("rank 0 (host a, pid 7) exited while its groups were alive").Encode());
    _exit(0);
  }
  if (world->rank != 0) {
    std::cout << session.WaitForLossOf(0) << std::endl;
    return 1;
  }
  if (what == "die") raise(SIGKILL);
  if (what == "exit" || what == "see the record") _exit(3);
  if (what == "stop") raise(SIGSTOP);
  if (what == "leave without a word") _exit(0);
  return 93;
}

// --- The test.

class Lines final : public OutputSink {
 public:
  void Write(int rank, OutputStream, absl::string_view bytes) override {
    if (rank != 0) absl::StrAppend(&text, bytes);
  }
  void Finish(int, OutputStream) override {}

  std::string text;
};

// However slow the launcher is: how fast it is says no test here.
ServeStoreOptions Patient() {
  ServeStoreOptions options;
  options.loss_grace = Bound();
  return options;
}

JobResult RunRanks(int ranks, const std::string& what, Lines* lines,
                   const LaunchedStoreFactory& store = ServeUnixStore(Patient()),
                   const std::string& folder = ::testing::TempDir()) {
  JobOptions job;
  job.command = {"/proc/self/exe", "--rank", what};
  job.ranks = ranks;
  job.environment = Environment::OfProcess();
  job.temporary_folder = folder;
  job.store = store;
  job.output = lines;
  job.limits.timeout = 2 * Bound();
  job.limits.failure_grace = Bound();
  job.limits.suspicion_grace = Bound();
  if (what == "stop") job.limits.failure_grace = absl::Seconds(1);
  absl::StatusOr<JobResult> result = RunJob(job);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

TEST(TcpLaunchedStoreTest, OthersLearnTheSignalThatKilledARank) {
  for (const bool tcp : {false, true}) {
    Lines lines;
    const JobResult result =
        RunRanks(3, "die", &lines, tcp ? ServeTcpStore(Patient()) : ServeUnixStore(Patient()));
    EXPECT_EQ(lines.text, "killed by signal 9\nkilled by signal 9\n");
    EXPECT_EQ(result.first_failed, 0);
    EXPECT_EQ(result.ExitCode(), 137);
  }
}

TEST(TcpLaunchedStoreTest, NothingIsLeftOfAUnixSocketWhereverItHadItsPlace) {
  const std::string deep = absl::StrCat(::testing::TempDir(), "/", std::string(100, 'x'));
  std::filesystem::create_directory(deep);
  for (const bool short_enough : {true, false}) {
    const store_testing::SocketFolder folder;
    ServeStoreOptions options = Patient();
    options.short_folder = folder.Path("");
    Lines lines;
    const JobResult result =
        RunRanks(2, "die", &lines, ServeUnixStore(options), short_enough ? folder.Path("") : deep);
    EXPECT_EQ(lines.text, "killed by signal 9\n");
    EXPECT_EQ(result.store_notice, "");
    EXPECT_TRUE(std::filesystem::is_empty(folder.Path("")));
    EXPECT_TRUE(std::filesystem::is_empty(deep));
  }
}

TEST(TcpLaunchedStoreTest, AStoreThatHadToBeServedOnTcpIsInTheReport) {
  ServeStoreOptions options = Patient();
  options.short_folder = "/no such folder";
  const std::string deep = absl::StrCat(::testing::TempDir(), "/", std::string(100, 'y'));
  std::filesystem::create_directory(deep);
  Lines lines;
  const JobResult result = RunRanks(2, "die", &lines, ServeUnixStore(options), deep);
  EXPECT_EQ(lines.text, "killed by signal 9\n");
  EXPECT_THAT(result.Report()[0],
              AllOf(StartsWith("the store is served on TCP, "),
                    HasSubstr("and not on a unix socket: \"unix:"), HasSubstr("TMPDIR decides")));
}

TEST(TcpLaunchedStoreTest, OthersLearnTheCodeThatARankExitedWith) {
  Lines lines;
  const JobResult result = RunRanks(2, "exit", &lines);
  EXPECT_EQ(lines.text, "exited with code 3\n");
  EXPECT_EQ(result.first_failed, 0);
  EXPECT_EQ(result.ExitCode(), 3);
}

TEST(TcpLaunchedStoreTest, AStoppedRankIsBlamedAndEndedThoughOthersFailFirst) {
  Lines lines;
  const JobResult result = RunRanks(2, "stop", &lines);
  EXPECT_THAT(lines.text, HasSubstr("no heartbeat for "));
  EXPECT_EQ(result.first_failed, 0);
  EXPECT_THAT(result.first_reason, HasSubstr("no heartbeat for "));
  EXPECT_EQ(result.ranks[0].exit->ToString(), "killed by signal 9");
}

TEST(TcpLaunchedStoreTest, ARankThatEndsWellWithoutAGoodbyeIsLostToTheOthersOnly) {
  Lines lines;
  const JobResult result = RunRanks(2, "leave without a word", &lines);
  EXPECT_THAT(lines.text, HasSubstr("exited with code 0"));
  // Rank 1 fails of it, here because the test says so; rank 0 has done what it was meant to do.
  EXPECT_EQ(result.first_failed, 1);
}

TEST(TcpLaunchedStoreTest, ARankThatEndsUnderItsGroupFailedFirstThoughItExitedWithZero) {
  Lines lines;
  const JobResult result = RunRanks(2, "end under the group", &lines);
  EXPECT_EQ(result.first_failed, 0);
  EXPECT_EQ(result.first_reason, "exited with code 0 while its group \"g\" was alive");
  EXPECT_EQ(result.ExitCode(), 1);
}

TEST(TcpLaunchedStoreTest, TheRankThatTheRecordBlamesFailedFirstThoughItEndedLast) {
  Lines lines;
  const JobResult result = RunRanks(2, "see the record", &lines);
  EXPECT_EQ(lines.text, "exited with code 3\n");
  EXPECT_LE(result.ranks[0].ended_after, result.ranks[1].ended_after);
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.first_reason, "rank 1: x; exited with code 1");
  EXPECT_EQ(result.ExitCode(), 1);
}

std::unique_ptr<LaunchedStore> ServeOne() {
  LaunchedStoreRequest request;
  request.token = "t";
  absl::StatusOr<std::unique_ptr<LaunchedStore>> store = ServeTcpStore()(request);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

World OnlyRankOf(const LaunchedStore& store) {
  World world;
  world.rank = 0;
  world.size = 1;
  world.store_address = store.address();
  world.token = "t";
  return world;
}

TEST(TcpLaunchedStoreTest, IsServedOnAUnixSocketInTheJobsFolderElseInAShorterOneElseOnTcp) {
  const store_testing::SocketFolder folder;
  LaunchedStoreRequest request;
  request.token = "t";
  request.folder = folder.Path("job");
  ASSERT_TRUE(std::filesystem::create_directory(request.folder));
  absl::StatusOr<std::unique_ptr<LaunchedStore>> store = ServeUnixStore()(request);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->address(), folder.Address("job/store"));
  EXPECT_EQ((*store)->Notice(), "");
  const Session session(OnlyRankOf(**store));
  store->reset();
  EXPECT_TRUE(std::filesystem::is_empty(request.folder));

  ServeStoreOptions options;
  for (const std::string& none :
       {std::string(), folder.Path(std::string(100, 'x')), std::string("relative")}) {
    request.folder = none;
    options.short_folder = folder.Path("job");
    store = ServeUnixStore(options)(request);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_THAT((*store)->address(), StartsWith(folder.Address("job/muster-")));
    EXPECT_EQ((*store)->Notice(), "");
    const Session in_another(OnlyRankOf(**store));
    store->reset();
    EXPECT_TRUE(std::filesystem::is_empty(options.short_folder));

    options.short_folder = folder.Path("no such folder");
    store = ServeUnixStore(options)(request);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_THAT((*store)->address(), StartsWith("127.0.0.1:")) << none;
    EXPECT_THAT((*store)->Notice(), StartsWith("the store is served on TCP, ")) << none;
    const Session on_tcp(OnlyRankOf(**store));
  }
}

// Who wants the system to say who connects must not get less without a word.
TEST(TcpLaunchedStoreTest, WhatIsNotForWantOfAPlaceForASocketIsAnErrorAndNotTcp) {
  const store_testing::SocketFolder folder;
  LaunchedStoreRequest request;
  request.token = "t";
  request.folder = folder.Path("gone");
  EXPECT_EQ(ServeUnixStore()(request).status().code(), absl::StatusCode::kNotFound);
  request.folder = folder.Path("");
  std::ofstream(folder.Path("/store")) << "x";
  const absl::Status taken = ServeUnixStore()(request).status();
  EXPECT_EQ(taken.code(), absl::StatusCode::kFailedPrecondition) << taken;
  EXPECT_THAT(taken.message(), HasSubstr("there is a file of that name"));
}

TEST(TcpLaunchedStoreTest, TellsTheLauncherWhoIsLostAndWhoComesAgain) {
  absl::Mutex mutex;
  std::vector<std::string> told;
  LaunchedStoreRequest request;
  request.token = "t";
  request.on_session = [&](int rank, const std::optional<std::string>& lost) {
    absl::MutexLock lock(&mutex);
    told.push_back(absl::StrCat(rank, " ", lost.value_or("is here")));
  };
  const absl::StatusOr<std::unique_ptr<LaunchedStore>> store = ServeTcpStore()(request);
  ASSERT_TRUE(store.ok()) << store.status();
  const World world = OnlyRankOf(**store);
  const Session first(world);
  (*store)->DeclareLost(0, "killed by signal 9");
  const Session again(world);
  absl::MutexLock lock(&mutex);
  EXPECT_THAT(told, ElementsAre("0 is here", "0 killed by signal 9", "0 is here"));
}

bool LoopbackAddress(absl::string_view text, sockaddr_in* address) {
  int port = 0;
  if (!absl::ConsumePrefix(&text, "127.0.0.1:") || !absl::SimpleAtoi(text, &port)) return false;
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address->sin_port = htons(static_cast<uint16_t>(port));
  return true;
}

// "" or why not.
std::string BindTo(absl::string_view address) {
  sockaddr_in wanted = {};
  if (!LoopbackAddress(address, &wanted)) return "no loopback address";
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&wanted), sizeof(wanted)) == 0) return "";
  return strerror(errno);
}

TEST(TcpLaunchedStoreTest, ThePortIsFreeAfterTheStoreIsGone) {
  std::unique_ptr<LaunchedStore> store = ServeOne();
  ASSERT_NE(store, nullptr);
  const std::string address = store->address();
  store->DeclareLost(0, "killed by signal 9");
  store->DeclareLost(7, "nobody");
  EXPECT_EQ(BindTo(address), strerror(EADDRINUSE));
  store.reset();
  EXPECT_EQ(BindTo(address), "");
}

TEST(TcpLaunchedStoreTest, SaysWhomItRefused) {
  const std::unique_ptr<LaunchedStore> store = ServeOne();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->Refused(), "");
  sockaddr_in address = {};
  ASSERT_TRUE(LoopbackAddress(store->address(), &address));
  const UniqueFd scanner(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(scanner.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  const std::string words = "GET / HTTP/1.1\r\n\r\n";
  EXPECT_EQ(send(scanner.get(), words.data(), words.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(words.size()));
  char byte = 0;
  EXPECT_LE(recv(scanner.get(), &byte, 1, 0), 0) << "it is closed";
  // Counted a moment after its end is seen.
  const absl::Time deadline = MonotonicNow() + Bound();
  while (store->Refused().empty() && MonotonicNow() < deadline) std::this_thread::yield();
  EXPECT_EQ(store->Refused(), "1 connection that spoke another protocol");
}

auto Failed(const std::string& text, std::optional<int> rank) {
  return AllOf(Property(&FailedGroup::ToString, text), Field(&FailedGroup::rank, rank));
}

TEST(TcpLaunchedStoreTest, SaysWhatGroupsRecordedAsTheirFailureAndWhoseItIsTheEarliestFirst) {
  const std::unique_ptr<LaunchedStore> store = ServeOne();
  ASSERT_NE(store, nullptr);
  EXPECT_THAT(store->FailedGroups(), IsEmpty());
  Session session(OnlyRankOf(*store));
  session.Set(GroupRecordKey("validate"), ClosedGroup().Encode());
  session.Set(GroupRecordKey("train"), FailureOf("rank 1: label 17\nout of range").Encode());
  session.Set(GroupRecordKey("strange"), "not a record");
  session.Set(GroupRecordKey("a"), FailureOf("barrier #1 did not finish on rank 0").Encode());
  EXPECT_THAT(
      store->FailedGroups(),
      ElementsAre(Failed("the group \"train\" had failed before: rank 1: label 17 out of range", 1),
                  Failed("the group \"a\" had failed before: barrier #1 did not finish on rank 0",
                         std::nullopt)));
}

TEST(TcpLaunchedStoreTest, AGroupThatFailedBeforeAnotherOneWasMadeBlamesNobody) {
  const std::unique_ptr<LaunchedStore> store = ServeOne();
  ASSERT_NE(store, nullptr);
  Session session(OnlyRankOf(*store));
  session.Set(GroupRecordKey("large"), FailureOf("rank 1: out of memory").Encode());
  session.Set(GroupRecordKey("small"), ClosedGroup().Encode());
  session.Set(GroupRecordKey("train"), FailureOf("rank 0: x").Encode());
  EXPECT_THAT(store->FailedGroups(),
              ElementsAre(Failed("the group \"large\" had failed before: rank 1: out of memory",
                                 std::nullopt),
                          Failed("the group \"train\" had failed before: rank 0: x", 0)));
}

TEST(TcpLaunchedStoreTest, AGroupThatFailedBesideOneThatWorksOnBlamesNobody) {
  const std::unique_ptr<LaunchedStore> store = ServeOne();
  ASSERT_NE(store, nullptr);
  Session session(OnlyRankOf(*store));
  session.Set(GroupRecordKey("train"), FailureOf("").Encode());
  session.Set(GroupRecordKey("aux"), FailureOf("rank 1 left: \"not needed\"").Encode());
  EXPECT_THAT(store->FailedGroups(),
              ElementsAre(Failed("the group \"aux\" had failed before: rank 1 left: \"not needed\"",
                                 std::nullopt)));
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc == 3 && argv[1] == absl::string_view("--rank")) return muster::RankMain(argv[2]);
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}

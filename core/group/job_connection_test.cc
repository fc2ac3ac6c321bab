// A process joins its job: whom it serves the store to, and where its groups listen.
//
// In a network of the test's own (a user and a network namespace), whose loopback interface has one
// more address: to a program an address like any that other hosts reach, and no other host does.
#include "muster/core/group/job_connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>  // NOLINT(build/c++11)

#include "absl/log/log_entry.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr char kAddress[] = "192.0.2.1";  // of the block that is kept for documentation

// Why there can be no network of our own, or "".
std::string EnterOwnNetwork() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return absl::StrCat("unshare: ", strerror(errno));
  }
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::StrCat("socket: ", strerror(errno));
  ifreq up = {};
  std::strcpy(up.ifr_name, "lo");
  up.ifr_flags = IFF_UP | IFF_RUNNING;
  ifreq alias = {};
  std::strcpy(alias.ifr_name, "lo:1");
  auto& address = reinterpret_cast<sockaddr_in&>(alias.ifr_addr);
  address.sin_family = AF_INET;
  inet_pton(AF_INET, kAddress, &address.sin_addr);
  std::string why;
  if (ioctl(fd, SIOCSIFFLAGS, &up) != 0 || ioctl(fd, SIOCSIFADDR, &alias) != 0) {
    why = absl::StrCat("ioctl: ", strerror(errno));
  }
  close(fd);
  return why;
}

class JobConnectionTest : public ::testing::Test {
 protected:
  // Before any thread: a process with several cannot enter a user namespace.
  static void SetUpTestSuite() { why_not_ = new std::string(EnterOwnNetwork()); }
  static void TearDownTestSuite() { delete why_not_; }
  void SetUp() override {
    if (!why_not_->empty()) GTEST_SKIP() << "no network of the test's own: " << *why_not_;
  }

  static World RankOf(int rank, const std::string& host, const std::string& token) {
    World world;
    world.rank = world.local_rank = rank;
    world.size = world.local_size = 2;
    world.store_address = absl::StrCat(host, ":29500");
    if (rank == 0) world.serve_address = world.store_address;
    world.token = token;
    return world;
  }

  static absl::StatusOr<JobConnection> Open(const World& world) {
    const absl::Duration timeout = absl::Seconds(10) * TimeoutScale();
    return OpenJobConnection(world, MonotonicNow() + timeout, timeout);
  }

  static const std::string* why_not_;
};

const std::string* JobConnectionTest::why_not_ = nullptr;

TEST_F(JobConnectionTest, WithASecretRankZeroServesOtherHostsAndGroupsListenOnTheStoresNetwork) {
  absl::StatusOr<JobConnection> zero = Open(RankOf(0, kAddress, "secret"));
  ASSERT_TRUE(zero.ok()) << zero.status();
  EXPECT_EQ(zero->tcp_server->address(), absl::StrCat(kAddress, ":29500"));
  EXPECT_EQ(zero->bind_address, kAddress);
  absl::StatusOr<JobConnection> one = Open(RankOf(1, kAddress, "secret"));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->bind_address, kAddress);
}

TEST_F(JobConnectionTest, WithoutASecretNobodyIsServedBeyondThisHostAndTheAdviceCanBeFollowed) {
  const absl::Status refused = Open(RankOf(0, kAddress, "")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(kAddress));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("MUSTER_TOKEN_FILE"));
}

TEST_F(JobConnectionTest, WithoutTheSecretNobodyComesInFromOutside) {
  absl::StatusOr<JobConnection> zero = Open(RankOf(0, kAddress, "secret"));
  ASSERT_TRUE(zero.ok()) << zero.status();
  const absl::Status stranger = Open(RankOf(1, kAddress, "guess")).status();
  EXPECT_EQ(stranger.code(), absl::StatusCode::kPermissionDenied) << stranger;
}

// It is the store that strangers reach; a launcher's is asked by the launcher.
TEST_F(JobConnectionTest, WhatItsStoreRefusedIsSaidByRankZeroAtTheEnd) {
  class Lines final : public absl::LogSink {
   public:
    void Send(const absl::LogEntry& entry) override {
      absl::StrAppend(&text_, entry.text_message(), "\n");
    }
    std::string text_;
  };
  absl::StatusOr<JobConnection> zero = Open(RankOf(0, kAddress, "secret"));
  ASSERT_TRUE(zero.ok()) << zero.status();
  EXPECT_FALSE(Open(RankOf(1, kAddress, "guess")).ok());
  const absl::Time end = MonotonicNow() + absl::Seconds(10) * TimeoutScale();
  while (zero->tcp_server->Statistics().Refused().empty() && MonotonicNow() < end) {
    std::this_thread::yield();
  }
  zero->store.reset();
  Lines lines;
  absl::AddLogSink(&lines);
  zero->StopServing(end);
  absl::RemoveLogSink(&lines);
  EXPECT_THAT(lines.text_, HasSubstr("the store refused "));
  EXPECT_THAT(lines.text_, HasSubstr(" that did not know the job's token\n"));
}

TEST_F(JobConnectionTest, OnThisHostAloneEverythingStaysOnLoopback) {
  for (const char* host : {"127.0.0.1", "127.8.9.1"}) {
    absl::StatusOr<JobConnection> zero = Open(RankOf(0, host, "secret"));
    ASSERT_TRUE(zero.ok()) << zero.status();
    EXPECT_EQ(zero->bind_address, "127.0.0.1");
  }
}

}  // namespace
}  // namespace muster

#include "muster/core/store/tcp_address.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster::store_internal {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::vector<ResolvedAddress>> Find(const TcpAddress& address) {
  return Resolve(address, MonotonicNow() + absl::Seconds(10) * TimeoutScale());
}

TEST(TcpAddressTest, ANumberIsNotLookedUp) {
  int asked = 0;
  const Lookup lookup = [&](const TcpAddress&) {
    ++asked;
    return absl::NotFoundError("asked");
  };
  EXPECT_TRUE(Resolve({"10.0.0.1", 1}, absl::InfinitePast(), lookup).ok());
  EXPECT_TRUE(Resolve({"fe80::1", 1}, absl::InfinitePast(), lookup).ok());
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(Resolve({"node-7", 1}, absl::InfiniteFuture(), lookup).status().message(), "asked");
}

TEST(TcpAddressTest, ANameServerThatDoesNotAnswerHoldsNobodyBeyondTheDeadline) {
  // Shared, since the lookup goes on behind the back of who asked.
  auto answer = std::make_shared<absl::Notification>();
  auto ended = std::make_shared<absl::Notification>();
  const Lookup lookup = [=](const TcpAddress&) -> absl::StatusOr<std::vector<ResolvedAddress>> {
    answer->WaitForNotification();
    ended->Notify();
    return absl::NotFoundError("late");
  };
  const absl::Status status =
      Resolve({"node-7", 1}, MonotonicNow() + absl::Milliseconds(20), lookup).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"node-7\""));
  answer->Notify();
  ended->WaitForNotification();
}

TEST(TcpAddressTest, ANameServerThatCannotAnswerYetIsAskedAgain) {
  auto asked = std::make_shared<int>(0);
  const Lookup lookup = [asked](const TcpAddress&) -> absl::StatusOr<std::vector<ResolvedAddress>> {
    if (++*asked < 3) return absl::UnavailableError("try again");
    return std::vector<ResolvedAddress>(1);
  };
  EXPECT_TRUE(Resolve({"node-7", 1}, MonotonicNow() + absl::Hours(1), lookup).ok());
  EXPECT_EQ(*asked, 3);
  *asked = -1000000;
  const absl::Status status =
      Resolve({"node-7", 1}, MonotonicNow() + absl::Milliseconds(150), lookup).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

TEST(TcpAddressTest, RefusesWhatIsNoneAndShowsTheFormExpected) {
  for (const char* text : {"", "host", "host:65536", "::1:5"}) {
    const auto address = ParseTcpAddress(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(address.status().message()), HasSubstr("host:port")) << text;
  }
}

TEST(TcpAddressTest, KnowsLoopback) {
  EXPECT_TRUE(Find({"127.0.0.1", 1})->front().IsLoopback());
  EXPECT_TRUE(Find({"127.8.9.1", 1})->front().IsLoopback());
  EXPECT_TRUE(Find({"::1", 1})->front().IsLoopback());
  EXPECT_FALSE(Find({"0.0.0.0", 1})->front().IsLoopback());
  EXPECT_FALSE(Find({"10.0.0.1", 1})->front().IsLoopback());
  EXPECT_FALSE(Find({"::", 1})->front().IsLoopback());
}

TEST(TcpAddressTest, APortThatIsTakenSaysSoAndOneThatIsFreeAgainIsTaken) {
  const auto first = Listen(Find({"127.0.0.1", 0})->front());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_NE(first->address.port, 0);
  EXPECT_NE(fcntl(first->fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(first->fd, F_GETFL) & O_NONBLOCK, 0);
  const ResolvedAddress same = Find(first->address)->front();
  const auto second = Listen(same);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(first->address.ToString()));
  close(first->fd);
  const auto third = Listen(same);
  ASSERT_TRUE(third.ok()) << third.status();
  close(third->fd);
}

TEST(TcpAddressTest, AnAddressOfAnotherHostCannotBeServedOnAndTheAdviceSaysWhose) {
  // Of the block for documentation (RFC 5737): no host has it.
  const absl::Status refused = Listen(Find({"192.0.2.1", 0})->front()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_EQ(refused.message(),
            "cannot serve the store on 192.0.2.1:0: it is no address of this host: rank 0 serves "
            "the store, so MASTER_ADDR must be one of rank 0's host");
}

}  // namespace
}  // namespace muster::store_internal

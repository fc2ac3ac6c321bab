#include "muster/core/store/tcp_address.h"

#include <fcntl.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::store_internal {
namespace {

using ::testing::HasSubstr;

TEST(TcpAddressTest, RefusesWhatIsNoneAndShowsTheFormExpected) {
  for (const char* text : {"", "host", "host:65536", "::1:5"}) {
    const auto address = ParseTcpAddress(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(address.status().message()), HasSubstr("host:port")) << text;
  }
}

TEST(TcpAddressTest, KnowsLoopback) {
  EXPECT_TRUE(Resolve({"127.0.0.1", 1})->front().IsLoopback());
  EXPECT_TRUE(Resolve({"127.8.9.1", 1})->front().IsLoopback());
  EXPECT_TRUE(Resolve({"::1", 1})->front().IsLoopback());
  EXPECT_FALSE(Resolve({"0.0.0.0", 1})->front().IsLoopback());
  EXPECT_FALSE(Resolve({"10.0.0.1", 1})->front().IsLoopback());
  EXPECT_FALSE(Resolve({"::", 1})->front().IsLoopback());
}

TEST(TcpAddressTest, APortThatIsTakenSaysSoAndOneThatIsFreeAgainIsTaken) {
  const auto first = Listen(Resolve({"127.0.0.1", 0})->front());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_NE(first->address.port, 0);
  EXPECT_NE(fcntl(first->fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(first->fd, F_GETFL) & O_NONBLOCK, 0);
  const ResolvedAddress same = Resolve(first->address)->front();
  const auto second = Listen(same);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(first->address.ToString()));
  close(first->fd);
  const auto third = Listen(same);
  ASSERT_TRUE(third.ok()) << third.status();
  close(third->fd);
}

}  // namespace
}  // namespace muster::store_internal

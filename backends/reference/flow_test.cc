#include "muster/backends/reference/flow.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/backends/reference/descriptor.h"
#include "muster/backends/reference/interrupt.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster::reference {
namespace {

class FlowTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    here_ = Descriptor(fds[0]);
    there_ = Descriptor(fds[1]);
    ASSERT_TRUE(interrupt_.Open().ok());
  }
  absl::Status RunAll(std::vector<Flow> flows, int until = -1,
                      absl::Time deadline = absl::InfiniteFuture()) {
    return reference::Run(flows, until, interrupt_, deadline);
  }

  Descriptor here_;
  Descriptor there_;
  Interrupt interrupt_;
};

// Many times what a socket holds, both ways: one thread alone can only do it when all move
// together.
TEST_F(FlowTest, AllFlowsMoveTogether) {
  std::vector<char> a(4 << 20, 'a');
  std::vector<char> b(4 << 20, 'b');
  std::vector<char> at_there(a.size());
  std::vector<char> at_here(b.size());
  const int64_t bytes = static_cast<int64_t>(a.size());
  EXPECT_TRUE(RunAll({
                         Flow::Send(here_.fd(), 1, a.data(), bytes),
                         Flow::Send(there_.fd(), 0, b.data(), bytes),
                         Flow::Receive(here_.fd(), 1, at_here.data(), bytes),
                         Flow::Receive(there_.fd(), 0, at_there.data(), bytes),
                     })
                  .ok());
  EXPECT_EQ(at_there, a);
  EXPECT_EQ(at_here, b);
}

TEST_F(FlowTest, FlowsOfOneSocketKeepTheirOrderAndCompleteBetween) {
  const std::string sent = "headbody";
  std::string head(4, ' ');
  std::string body(4, ' ');
  std::string seen;
  std::vector<Flow> flows = {Flow::Send(here_.fd(), 1, sent.data(), 8),
                             Flow::Receive(there_.fd(), 0, head.data(), 4),
                             Flow::Receive(there_.fd(), 0, body.data(), 4)};
  flows[1].complete = [&] {
    seen = head + body;
    return absl::OkStatus();
  };
  EXPECT_TRUE(RunAll(std::move(flows)).ok());
  EXPECT_EQ(seen, "head    ");
  EXPECT_EQ(body, "body");
}

TEST_F(FlowTest, AnErrorOfCompleteEndsIt) {
  char byte = 'x';
  std::vector<Flow> flows = {Flow::Send(here_.fd(), 1, &byte, 1),
                             Flow::Receive(there_.fd(), 0, &byte, 1),
                             Flow::Receive(there_.fd(), 0, &byte, 1)};
  flows[1].complete = [] { return absl::InvalidArgumentError("not that"); };
  EXPECT_EQ(RunAll(std::move(flows)), absl::InvalidArgumentError("not that"));
}

TEST_F(FlowTest, UntilEndsItEarly) {
  const std::vector<char> never_read(8 << 20);
  char answer = '!';
  char got = ' ';
  EXPECT_TRUE(RunAll(
                  {
                      Flow::Send(there_.fd(), 0, &answer, 1),
                      Flow::Send(here_.fd(), 1, never_read.data(), 8 << 20),
                      Flow::Receive(here_.fd(), 1, &got, 1),
                  },
                  /*until=*/2)
                  .ok());
  EXPECT_EQ(got, '!');
}

TEST_F(FlowTest, AClosedConnectionNamesTheRank) {
  there_.Close();
  char byte;
  EXPECT_EQ(RunAll({Flow::Receive(here_.fd(), 3, &byte, 1)}),
            absl::UnavailableError("lost contact with rank 3: it closed the connection"));
  EXPECT_EQ(RunAll({Flow::Send(here_.fd(), 3, &byte, 1)}),
            absl::UnavailableError("lost contact with rank 3: Broken pipe"));
}

// The peer said why before it closed: that tells more than the broken pipe.
TEST_F(FlowTest, WhatALeavingPeerSaidIsHeardBeforeTheErrorOfSending) {
  char why = 'w';
  EXPECT_TRUE(RunAll({Flow::Send(there_.fd(), 0, &why, 1)}).ok());
  there_.Close();
  const std::vector<char> data(1 << 20);
  char got = ' ';
  EXPECT_TRUE(RunAll(
                  {
                      Flow::Send(here_.fd(), 1, data.data(), 1 << 20),
                      Flow::Receive(here_.fd(), 1, &got, 1),
                  },
                  /*until=*/1)
                  .ok());
  EXPECT_EQ(got, 'w');
}

TEST_F(FlowTest, TheDeadlineNamesWhoWasWaitedFor) {
  char byte;
  EXPECT_EQ(
      RunAll({Flow::Receive(here_.fd(), 4, &byte, 1), Flow::Receive(there_.fd(), 2, &byte, 1)}, -1,
             MonotonicNow()),
      absl::DeadlineExceededError("the deadline passed while this rank waited for ranks 2, 4"));
}

TEST_F(FlowTest, AnInterruptWakesItWithTheFirstCause) {
  char byte;
  std::thread other([this] {
    interrupt_.Raise(absl::AbortedError("first"));
    interrupt_.Raise(absl::AbortedError("second"));
  });
  EXPECT_EQ(RunAll({Flow::Receive(here_.fd(), 1, &byte, 1)}), absl::AbortedError("first"));
  other.join();
  EXPECT_EQ(interrupt_.cause(), absl::AbortedError("first"));
  interrupt_.Close();
  EXPECT_FALSE(interrupt_.open());
  EXPECT_EQ(interrupt_.cause(), absl::AbortedError("first"));
}

}  // namespace
}  // namespace muster::reference

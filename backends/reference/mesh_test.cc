#include "muster/backends/reference/mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/backends/reference/descriptor.h"
#include "muster/backends/reference/interrupt.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster::reference {
namespace {

class MeetingTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(interrupt_.Open().ok()); }

  Meeting Open() {
    absl::StatusOr<Meeting> meeting = Meeting::Open("127.0.0.1");
    EXPECT_TRUE(meeting.ok()) << meeting.status();
    return *std::move(meeting);
  }
  static int PortOf(const Meeting& meeting) {
    const std::vector<std::string> parts = absl::StrSplit(meeting.invitation(), ' ');
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(parts[1], &port));
    return port;
  }
  static absl::Time Later() { return MonotonicNow() + TimeoutScale() * absl::Seconds(20); }

  Interrupt interrupt_;
};

TEST_F(MeetingTest, ConnectsEachTwo) {
  std::vector<Meeting> meetings;
  std::vector<std::string> invitations;
  for (int r = 0; r < 3; ++r) {
    meetings.push_back(Open());
    invitations.push_back(meetings.back().invitation());
  }
  std::vector<absl::StatusOr<std::vector<Descriptor>>> links(3);
  std::vector<std::thread> ranks;
  ranks.reserve(3);
  for (int r = 0; r < 3; ++r) {
    ranks.emplace_back(
        [&, r] { links[r] = meetings[r].Meet(r, invitations, interrupt_, Later()); });
  }
  for (std::thread& rank : ranks) rank.join();
  for (int r = 0; r < 3; ++r) {
    ASSERT_TRUE(links[r].ok()) << links[r].status();
    for (int peer = 0; peer < 3; ++peer) EXPECT_EQ((*links[r])[peer].open(), peer != r);
  }
}

TEST_F(MeetingTest, StrangersAreDroppedAndHoldUpNobody) {
  Meeting zero = Open();
  Meeting one = Open();
  const std::vector<std::string> invitations = {zero.invitation(), one.invitation()};
  // One says nothing, one says too little, one says nonsense, one leaves.
  std::vector<Descriptor> strangers;
  for (const std::string& words : {std::string(), std::string("GET"), std::string(64, 'x')}) {
    absl::StatusOr<Descriptor> stranger = StartConnect("127.0.0.1", PortOf(zero));
    ASSERT_TRUE(stranger.ok());
    pollfd writable = {stranger->fd(), POLLOUT, 0};
    ASSERT_EQ(poll(&writable, 1, -1), 1);
    ASSERT_EQ(send(stranger->fd(), words.data(), words.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(words.size()));
    strangers.push_back(*std::move(stranger));
  }
  ASSERT_TRUE(StartConnect("127.0.0.1", PortOf(zero)).ok());

  absl::Status status;
  std::thread rank_one([&] { status = one.Meet(1, invitations, interrupt_, Later()).status(); });
  absl::StatusOr<std::vector<Descriptor>> links = zero.Meet(0, invitations, interrupt_, Later());
  rank_one.join();
  EXPECT_TRUE(links.ok()) << links.status();
  EXPECT_TRUE(status.ok()) << status;
}

// It knows the address, as something left over from an older generation may, and not the nonce.
TEST_F(MeetingTest, ARankOfAnOlderGenerationIsDropped) {
  Meeting zero = Open();
  Meeting one = Open();
  std::string old = zero.invitation();
  old.back() = old.back() == '0' ? '1' : '0';
  const std::vector<std::string> current = {zero.invitation(), one.invitation()};
  const std::vector<std::string> outdated = {old, one.invitation()};
  absl::Status of_one;
  std::thread rank_one([&] { of_one = one.Meet(1, outdated, interrupt_, Later()).status(); });
  const absl::Status of_zero =
      zero.Meet(0, current, interrupt_, MonotonicNow() + absl::Milliseconds(200)).status();
  rank_one.join();
  EXPECT_EQ(of_zero, absl::DeadlineExceededError("rank 1 did not connect to rank 0"));
  EXPECT_TRUE(absl::IsUnavailable(of_one)) << of_one;
}

TEST_F(MeetingTest, RanksThatDoNotComeAreNamed) {
  Meeting zero = Open();
  const std::vector<std::string> invitations(3, zero.invitation());
  EXPECT_EQ(zero.Meet(0, invitations, interrupt_, MonotonicNow()).status(),
            absl::DeadlineExceededError("ranks 1, 2 did not connect to rank 0"));
}

TEST_F(MeetingTest, ARankThatIsGoneIsNamed) {
  std::string gone;
  {
    Meeting closed = Open();
    gone = closed.invitation();
  }
  Meeting one = Open();
  EXPECT_EQ(one.Meet(1, {gone, one.invitation()}, interrupt_, Later()).status(),
            absl::UnavailableError("lost contact with rank 0: Connection refused"));
}

TEST_F(MeetingTest, AnInvitationThatIsNoneIsQuoted) {
  Meeting one = Open();
  EXPECT_EQ(one.Meet(1, {"hello", one.invitation()}, interrupt_, Later()).status(),
            absl::InvalidArgumentError("rank 0 published \"hello\", which is no \"<address> <port> "
                                       "<nonce>\": do all ranks run one version?"));
}

TEST_F(MeetingTest, AnAddressThatIsNoneIsQuoted) {
  const absl::Status status = Meeting::Open("somewhere").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("\"somewhere\""), absl::string_view::npos) << status;
  // An address that is not this machine's (of the block that is kept for documentation).
  EXPECT_TRUE(absl::IsUnavailable(Meeting::Open("192.0.2.1").status()));
}

}  // namespace
}  // namespace muster::reference

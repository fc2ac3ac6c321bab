#include "muster/testing/test_barrier.h"

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/environment.h"
#include "muster/testing/rank_events.h"

namespace muster {
namespace testing {
namespace {

class TestBarrierTest : public ::testing::Test {
 protected:
  TestBarrierTest() {
    for (int rank = 0; rank < 2; ++rank) {
      std::remove(EventsPath(::testing::TempDir(), rank).c_str());
      events_.push_back(*RankEventWriter::Open(EventsPath(::testing::TempDir(), rank)));
    }
  }

  absl::Status Wait(absl::Duration timeout) {
    return WaitForTest(
        Environment({{std::string(kEventsVariable), EventsPath(::testing::TempDir(), 0)},
                     {"RANK", "0"},
                     {"WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", "1"}}),
        timeout);
  }

  std::vector<std::unique_ptr<RankEventWriter>> events_;
};

TEST_F(TestBarrierTest, WaitsForTheLastRank) {
  events_[0]->Started("A", "First");
  EXPECT_EQ(Wait(absl::Milliseconds(1)),
            absl::DeadlineExceededError(
                "rank 1 did not come to this test within 1ms: it has begun none"));
  events_[1]->Started("A", "First");
  EXPECT_TRUE(Wait(absl::ZeroDuration()).ok());
  events_[0]->Ended(TestRecord::Outcome::kPassed);
  events_[0]->Started("A", "Second");
  EXPECT_EQ(
      Wait(absl::Milliseconds(1)),
      absl::DeadlineExceededError("rank 1 did not come to this test within 1ms: it is in A.First"));
  std::thread other([this] {
    events_[1]->Ended(TestRecord::Outcome::kPassed);
    events_[1]->Started("A", "Second");
  });
  EXPECT_TRUE(Wait(absl::Minutes(1)).ok());
  other.join();
}

TEST_F(TestBarrierTest, ARankThatDidNotComeIsNotWaitedForAgainUntilItDoes) {
  events_[1]->Started("A", "Hangs");
  events_[0]->Started("A", "Hangs");
  events_[0]->Ended(TestRecord::Outcome::kPassed);
  events_[0]->Started("A", "Second");
  events_[0]->Failed("", std::string(Wait(absl::Milliseconds(1)).message()));
  events_[0]->Ended(TestRecord::Outcome::kFailed);
  events_[0]->Started("A", "Third");
  EXPECT_EQ(Wait(absl::InfiniteDuration()),
            absl::DeadlineExceededError("rank 1 did not come to this test within the time for one "
                                        "before: it is in A.Hangs"));
  // It lives: now it has all the time again.
  events_[1]->Ended(TestRecord::Outcome::kPassed);
  events_[1]->Started("A", "Second");
  EXPECT_EQ(Wait(absl::Milliseconds(1)),
            absl::DeadlineExceededError(
                "rank 1 did not come to this test within 1ms: it is in A.Second"));
}

TEST_F(TestBarrierTest, ARankThatIsAheadIsNotWaitedFor) {
  events_[0]->Started("A", "First");
  events_[1]->Started("A", "First");
  events_[1]->Ended(TestRecord::Outcome::kPassed);
  events_[1]->Started("A", "Second");
  EXPECT_TRUE(Wait(absl::ZeroDuration()).ok());
}

TEST_F(TestBarrierTest, ARankThatHasEndedNeverComes) {
  events_[1]->Finished(0);
  events_[0]->Started("A", "First");
  EXPECT_EQ(
      Wait(absl::Minutes(1)),
      absl::AbortedError("rank 1 has ended after 0 tests, this is number 1: every rank must run "
                         "the same ones"));
}

TEST_F(TestBarrierTest, WithoutOurMainThereIsNothingToWaitFor) {
  EXPECT_TRUE(WaitForTest(Environment({}), absl::ZeroDuration()).ok());
}

}  // namespace
}  // namespace testing
}  // namespace muster

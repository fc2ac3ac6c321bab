#include "muster/core/group/signal_intake.h"

#include <signal.h>

#include <atomic>
#include <optional>
#include <thread>  // NOLINT(build/c++11): absl has no thread
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

using Answer = SignalIntake::Answer;

TEST(SignalIntakeTest, TheFirstSignalIsTheThreadsWithWhoSentIt) {
  SignalIntake intake;
  intake.Open();
  EXPECT_FALSE(intake.Look().has_value());
  EXPECT_EQ(intake.Arrive(SIGTERM, 812, 1000), Answer::kFirst);
  for (const std::optional<SignalIntake::Taken>& taken : {intake.Look(), intake.Close()}) {
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->signal, SIGTERM);
    EXPECT_EQ(taken->sender, 812);
  }
}

TEST(SignalIntakeTest, ASenderThatItHasNoRoomForIsNotKnown) {
  for (const pid_t sender : {-1, 1 << 24}) {
    SignalIntake intake;
    intake.Open();
    EXPECT_EQ(intake.Arrive(SIGINT, sender, ~uint64_t{0}), Answer::kFirst);
    EXPECT_EQ(intake.Look()->signal, SIGINT);
    EXPECT_EQ(intake.Look()->sender, 0);
  }
}

TEST(SignalIntakeTest, TheSameOneSoonIsTheSameRequestAndElseItIsImpatience) {
  // Also where the milliseconds pass 32 bits in between.
  for (const uint64_t then : {uint64_t{1000}, (uint64_t{7} << 32) - 1}) {
    SignalIntake intake;
    intake.Open();
    intake.Arrive(SIGTERM, 1, then);
    EXPECT_EQ(intake.Arrive(SIGTERM, 2, then + 499), Answer::kSameRequest);
    EXPECT_EQ(intake.Arrive(SIGTERM, 2, then + 500), Answer::kImpatience);
    EXPECT_EQ(intake.Arrive(SIGINT, 2, then + 1), Answer::kImpatience);
    intake.Close();
    EXPECT_EQ(intake.Arrive(SIGINT, 2, then + 1), Answer::kImpatience) << "the thread has one";
  }
}

// A handler that the kernel has entered and that has not come to ask yet: where the last look was
// not the end, its signal would be noted, and nobody would look.
TEST(SignalIntakeTest, WhoComesAfterTheLastLookIsToldThatNobodyWaits) {
  SignalIntake intake;
  EXPECT_EQ(intake.Arrive(SIGTERM, 1, 1), Answer::kNobodyWaits) << "not open yet";
  intake.Open();
  EXPECT_FALSE(intake.Close().has_value());
  EXPECT_EQ(intake.Arrive(SIGTERM, 1, 1), Answer::kNobodyWaits);
  intake.Open();
  EXPECT_EQ(intake.Arrive(SIGTERM, 1, 1), Answer::kFirst) << "the next one's";
  intake.Shut();
  EXPECT_EQ(intake.Arrive(SIGTERM, 1, 1), Answer::kNobodyWaits);
  EXPECT_FALSE(intake.open());
}

TEST(SignalIntakeTest, HoweverManyComeAtTheMomentOfTheLastLookNoneIsLost) {
  constexpr int kHandlers = 3;
  for (int round = 0; round < 300; ++round) {
    SignalIntake intake;
    intake.Open();
    std::atomic<int> ready{0};
    std::atomic<int> first{0};
    std::atomic<int> nobody{0};
    std::vector<std::thread> handlers;
    for (int i = 0; i < kHandlers; ++i) {
      handlers.emplace_back([&] {
        ++ready;
        while (ready < kHandlers + 1) std::this_thread::yield();
        const Answer answer = intake.Arrive(SIGTERM, 1, 1);
        if (answer == Answer::kFirst) ++first;
        if (answer == Answer::kNobodyWaits) ++nobody;
      });
    }
    while (ready < kHandlers) std::this_thread::yield();
    ++ready;
    const bool taken = intake.Close().has_value();
    for (std::thread& handler : handlers) handler.join();
    ASSERT_EQ(first, taken ? 1 : 0);
    ASSERT_EQ(nobody, taken ? 0 : kHandlers);
  }
}

}  // namespace
}  // namespace muster

// GoogleTest listeners of a rank: one tells the launcher what happens, one fails the test that
// leaks a group.
#ifndef MUSTER_TESTING_RANK_LISTENERS_H_
#define MUSTER_TESTING_RANK_LISTENERS_H_

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "muster/testing/rank_events.h"

namespace muster {
namespace testing {

// Writes each event. To be appended before listeners that fail tests: it then sees their failures,
// too, and sees a test's end after them.
class RankEventListener final : public ::testing::EmptyTestEventListener {
 public:
  // `events` outlives it.
  explicit RankEventListener(RankEventWriter* events) : events_(events) {}

  void OnTestStart(const ::testing::TestInfo& test) override;
  void OnTestPartResult(const ::testing::TestPartResult& result) override;
  void OnTestEnd(const ::testing::TestInfo& test) override;

 private:
  RankEventWriter* const events_;
};

// After each test and at the end of all: no group may be alive. Not part of any fixture, so that a
// test without ours is checked as well.
class LeakListener final : public ::testing::EmptyTestEventListener {
 public:
  struct Probe {
    // One line a group.
    std::function<std::vector<std::string>()> live;
    // So that the next test starts clean. Peers are told "rank 1 <why>".
    std::function<void(const std::string& why)> abort_all;
  };
  // Of the process's groups.
  static Probe ProcessProbe();

  // `events` may be null, and outlives it.
  LeakListener(Probe probe, RankEventWriter* events);

  void OnTestEnd(const ::testing::TestInfo& test) override;
  void OnTestProgramEnd(const ::testing::UnitTest& program) override;

 private:
  void Check(const std::string& test);

  const Probe probe_;
  RankEventWriter* const events_;
};

}  // namespace testing
}  // namespace muster

#endif  // MUSTER_TESTING_RANK_LISTENERS_H_

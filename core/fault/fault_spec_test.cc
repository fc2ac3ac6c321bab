#include "muster/core/fault/fault_spec.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/fault/fault_point.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

FaultSpec One(absl::string_view text) {
  absl::StatusOr<std::vector<FaultSpec>> specs = ParseFaults(text);
  EXPECT_TRUE(specs.ok()) << specs.status();
  if (!specs.ok() || specs->size() != 1) {
    ADD_FAILURE() << text << " is not one fault";
    return FaultSpec();
  }
  return (*specs)[0];
}

TEST(FaultPointTest, TheTableHasEveryPointInItsPlace) {
  int index = 0;
  for (const FaultPointInfo& info : AllFaultPoints()) {
    EXPECT_EQ(static_cast<int>(info.point), index++);
    EXPECT_EQ(Name(info.point), info.name);
    absl::StatusOr<FaultPoint> found = FaultPointByName(info.name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, info.point);
  }
}

TEST(FaultSpecTest, AnActionAloneHappensAlwaysAndEverywhere) {
  const FaultSpec fault = One("pool.connected=fail");
  EXPECT_EQ(fault.point, FaultPoint::kPoolConnected);
  EXPECT_EQ(fault.action, FaultAction::kFail);
  EXPECT_FALSE(fault.rank.has_value());
  for (const int visit : {1, 2, 1000}) EXPECT_TRUE(fault.AppliesTo(7, visit));
}

TEST(FaultSpecTest, TakesEveryActionAndArgument) {
  EXPECT_EQ(One("pool.connected=fail(message=no)").message, "no");
  EXPECT_EQ(One("pool.connected=fail(message=\"a \\\"b\\\", \\\\;)\")").message, "a \"b\", \\;)");
  EXPECT_EQ(One("pool.rollback=crash()").action, FaultAction::kCrash);
  EXPECT_EQ(One("pool.rollback=exit").exit_code, 3);
  EXPECT_EQ(One("pool.rollback=exit(code=0)").exit_code, 0);
  EXPECT_EQ(One("pool.rollback=stop(rank=1)").rank, 1);
  EXPECT_EQ(One("group.operation=delay(duration=1.5s)").duration, absl::Milliseconds(1500));
  EXPECT_EQ(One("group.operation=delay(duration=\"2m\")").duration, absl::Minutes(2));
}

TEST(FaultSpecTest, NthIsOnceUnlessTimesSaysMore) {
  const FaultSpec second = One("pool.connected=fail(nth=2,rank=1)");
  EXPECT_FALSE(second.AppliesTo(1, 1));
  EXPECT_TRUE(second.AppliesTo(1, 2));
  EXPECT_FALSE(second.AppliesTo(1, 3));
  EXPECT_FALSE(second.AppliesTo(0, 2));
  const FaultSpec from_second = One("pool.connected=fail(nth=2,times=2)");
  EXPECT_FALSE(from_second.AppliesTo(0, 1));
  EXPECT_TRUE(from_second.AppliesTo(0, 2));
  EXPECT_TRUE(from_second.AppliesTo(0, 3));
  EXPECT_FALSE(from_second.AppliesTo(0, 4));
  EXPECT_FALSE(One("pool.connected=fail(times=1)").AppliesTo(0, 2));
}

TEST(FaultSpecTest, SpacesAndSeveralFaultsAreFine) {
  EXPECT_TRUE(ParseFaults("")->empty());
  EXPECT_TRUE(ParseFaults("  ")->empty());
  EXPECT_EQ(ParseFaults(" pool.connected = fail ( rank = 1 , nth = 2 ) ; pool.rollback = crash ; ")
                ->size(),
            2u);
}

TEST(FaultSpecTest, WhatItDoesNotKnowItSaysWithWhatItExpected) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"nowhere=fail",
       "unknown fault point \"nowhere\": expected one of pool.rendezvous, pool.connecting, "
       "pool.connected, pool.rollback, "
       "pool.voting, pool.closing, group.queue, group.operation"},
      {"=fail", "unknown fault point \"\""},
      {"pool.connected", "at the end: expected \"=\" and an action"},
      {"pool.connected=", "unknown action \"\": expected fail, crash, exit, stop or delay"},
      {"pool.connected=explode",
       "unknown action \"explode\": expected fail, crash, exit, stop or delay"},
      {"pool.connected=throw", "unknown action \"throw\""},
      {"pool.connected=fail(", "expected \"=\" and a value after argument \"\""},
      {"pool.connected=fail(rank)", "at \")\": expected \"=\" and a value after argument \"rank\""},
      {"pool.connected=fail(rank=)", "at \")\": expected a value"},
      {"pool.connected=fail(rank=1", "at the end: expected \",\" or \")\""},
      {"pool.connected=fail(rank=1,)", "expected \"=\" and a value after argument \"\""},
      {"pool.connected=fail(rank=x)", "rank is \"x\": expected a whole number from 0 to"},
      {"pool.connected=fail(rank=-1)", "rank is \"-1\": expected a whole number from 0 to"},
      {"pool.connected=fail(rank=+1)", "rank is \"+1\": expected a whole number from 0 to"},
      {"pool.connected=fail(rank=1,rank=2)", "argument rank is given twice"},
      {"pool.connected=fail(nth=0)", "nth is \"0\": expected a whole number from 1 to"},
      {"pool.connected=fail(times=0)", "times is \"0\": expected a whole number from 1 to"},
      {"pool.connected=fail(nth=99999999999999999999)", "expected a whole number from 1 to"},
      {"pool.connected=fail(code=1)",
       "unknown argument \"code\" of fail: expected message, rank, nth or times"},
      {"pool.connected=crash(message=a)",
       "unknown argument \"message\" of crash: expected rank, nth or times"},
      {"pool.connected=exit(code=256)", "code is \"256\": expected a whole number from 0 to 255"},
      {"pool.connected=fail(message=\"\")", "message is empty"},
      {"pool.connected=fail(message=\"a)", "a text is not closed"},
      {"pool.connected=fail(message=\"a\\", "a text is not closed"},
      {"pool.connected=fail(message=\"\\n\")", "unknown escape \\n"},
      {"pool.connected=delay", "delay needs duration=DURATION"},
      {"pool.connected=delay(rank=1)", "delay needs duration=DURATION"},
      {"pool.connected=delay(duration=5)", "duration is \"5\": expected one such as 50ms"},
      {"pool.connected=delay(duration=-5s)", "duration is \"-5s\""},
      {"pool.connected=delay(duration=inf)", "duration is \"inf\""},
      {"pool.connected=fail pool.rollback=fail",
       "at \"pool.rollback=fail\": expected \";\" or the end"},
      {"pool.connected=fail;;", "unknown fault point \"\""},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = ParseFaults(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("faults \""), HasSubstr(message)))
        << text;
  }
}

}  // namespace
}  // namespace muster

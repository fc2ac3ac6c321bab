#include "muster/testing/rank_listeners.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "muster/core/observe/live_groups.h"
#include "muster/testing/rank_events.h"

namespace muster {
namespace testing {

void RankEventListener::OnTestStart(const ::testing::TestInfo& test) {
  events_->Started(test.test_suite_name(), test.name());
}

void RankEventListener::OnTestPartResult(const ::testing::TestPartResult& result) {
  if (!result.failed()) return;
  std::string where;
  if (result.file_name() != nullptr) {
    const absl::string_view file = result.file_name();
    // The last component: the same in every sandbox.
    where = absl::StrCat(file.substr(file.rfind('/') + 1), ":", result.line_number());
  }
  events_->Failed(where, result.message());
}

void RankEventListener::OnTestEnd(const ::testing::TestInfo& test) {
  const ::testing::TestResult& result = *test.result();
  events_->Ended(result.Failed()    ? TestRecord::Outcome::kFailed
                 : result.Skipped() ? TestRecord::Outcome::kSkipped
                                    : TestRecord::Outcome::kPassed);
}

LeakListener::Probe LeakListener::ProcessProbe() {
  return {[] {
            std::vector<std::string> lines;
            for (const LiveGroup& group : AllLiveGroups()) lines.push_back(group.ToString());
            return lines;
          },
          [](const std::string& why) { LivePools::Global().AbortAll(why); }};
}

LeakListener::LeakListener(Probe probe, RankEventWriter* events)
    : probe_(std::move(probe)), events_(events) {}

void LeakListener::OnTestEnd(const ::testing::TestInfo& test) {
  Check(absl::StrCat(test.test_suite_name(), ".", test.name()));
}

void LeakListener::OnTestProgramEnd(const ::testing::UnitTest&) { Check(""); }

void LeakListener::Check(const std::string& test) {
  const std::vector<std::string> live = probe_.live();
  if (live.empty()) return;
  for (const std::string& group : live) {
    if (events_ != nullptr) events_->Leaked(test, group);
    // GoogleTest says which test it is.
    ADD_FAILURE() << (test.empty() ? "the tests leave group " : "the test leaves group ") << group
                  << ": close it, or destroy its pool, before the end";
  }
  probe_.abort_all(test.empty() ? "left a group open after its tests"
                                : absl::StrCat("left a group open in its test ", test));
}

}  // namespace testing
}  // namespace muster

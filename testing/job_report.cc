#include "muster/testing/job_report.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/describe_ranks.h"
#include "muster/testing/names_rank.h"
#include "muster/testing/one_line.h"
#include "muster/testing/xml_escape.h"

namespace muster {
namespace testing {
namespace {

constexpr size_t kEntriesShown = 20;

std::string WithPlace(const TestFailure& failure) {
  const std::string text = OneLine(failure.message);
  return failure.where.empty() ? text : absl::StrCat(text, " (", failure.where, ")");
}

std::string XmlSeconds(absl::Duration duration) {
  return absl::StrFormat("%.3f", std::max(0.0, absl::ToDoubleSeconds(duration)));
}

}  // namespace

JobReport::JobReport(JobFacts facts) : facts_(std::move(facts)) { Judge(); }

void JobReport::Judge() {
  for (size_t rank = 0; rank < facts_.ranks.size(); ++rank) JudgeRank(static_cast<int>(rank));
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.at < b.at; });
  BlameByRecord();
  for (const LeftProcess& process : facts_.result.left) {
    leaks_.push_back(absl::StrCat(
        "LEAKED by ", process.rank.has_value() ? absl::StrCat("rank ", *process.rank) : "a rank",
        ": process ", process.pid, " (", process.command, ")"));
    if (process.rank.has_value() && *process.rank < static_cast<int>(facts_.ranks.size())) {
      blamed_.push_back(*process.rank);
    }
  }
  std::vector<int> in_order;
  for (const Entry& entry : entries_) in_order.push_back(entry.rank);
  blamed_.insert(blamed_.begin(), in_order.begin(), in_order.end());
  std::set<int> seen;
  blamed_.erase(std::remove_if(blamed_.begin(), blamed_.end(),
                               [&](int rank) { return !seen.insert(rank).second; }),
                blamed_.end());
  if (entries_.empty() && facts_.result.ok()) CompareTests();
  ok_ = entries_.empty() && leaks_.empty() && remarks_.empty() && facts_.result.ok();
}

void JobReport::JudgeRank(int rank) {
  const RankRecord& record = facts_.ranks[static_cast<size_t>(rank)];
  for (const TestFailure& failure : record.outside) {
    entries_.push_back({failure.at, rank, WithPlace(failure), "", false});
  }
  for (const TestRecord& test : record.tests) {
    if (test.failures.empty()) continue;
    // The first failure of a test is its reason; the log has the rest.
    entries_.push_back({test.failures.front().at, rank,
                        absl::StrCat(test.FullName(), ": ", WithPlace(test.failures.front())),
                        test.FullName(), false});
  }
  for (const LeakedGroup& leak : record.leaked) {
    leaks_.push_back(absl::StrCat("LEAKED by rank ", rank, ": group ", leak.group,
                                  leak.test.empty() ? "" : absl::StrCat(", in ", leak.test)));
  }
  JudgeEnd(rank);
}

void JobReport::JudgeEnd(int rank) {
  const RankRecord& record = facts_.ranks[static_cast<size_t>(rank)];
  const RankResult& end = facts_.result.ranks[static_cast<size_t>(rank)];
  const TestRecord* running = record.running();
  const std::string test = running == nullptr ? "" : running->FullName();
  const std::string in_test = running == nullptr ? "" : absl::StrCat(test, ": ");
  const absl::Duration at = facts_.started + end.ended_after;
  const bool still_there = !end.exit.has_value() || end.signalled != 0;
  if (facts_.result.first_failed == rank && still_there) {
    // Lost by the store while it was there, stopped perhaps, or at fault by a group's record: that
    // came before anything the others say.
    entries_.push_back({absl::ZeroDuration(), rank,
                        absl::StrCat(in_test, facts_.result.first_reason), test, true});
    return;
  }
  if (still_there) {
    const JobResult& job = facts_.result;
    const bool by_us = job.timed_out || job.interrupted_by != 0 ||
                       !job.running_at_timeout.empty() || !job.stragglers.empty();
    if (record.finished_with.has_value() && !by_us) return;
    const std::string where = record.finished_with.has_value() ? "all tests done, but still there"
                              : running == nullptr             ? "outside of a test"
                                                               : absl::StrCat("still in ", test);
    entries_.push_back({at, rank, where, test, false, true});
    return;
  }
  if (record.finished_with.has_value()) {
    // Failures are entries already; another code than the tests' own is one of its own.
    const RankExit expected = RankExit::Exited(*record.finished_with);
    if (end.exit->ToString() != expected.ToString()) {
      entries_.push_back(
          {at, rank, absl::StrCat(end.exit->ToString(), " after all its tests"), "", true});
    } else if (!end.exit->ok() &&
               std::none_of(entries_.begin(), entries_.end(),
                            [rank](const Entry& entry) { return entry.rank == rank; })) {
      entries_.push_back({at, rank, end.exit->ToString(), "", false});
    }
    return;
  }
  entries_.push_back({at, rank,
                      absl::StrCat(in_test, end.exit->ToString(),
                                   end.exit->ok() ? " before the end of its tests" : ""),
                      test, true});
}

void JobReport::BlameByRecord() {
  for (const FailedGroup& group : facts_.result.failed_groups) {
    if (!group.rank.has_value() || entries_.empty() || entries_[0].rank == *group.rank) continue;
    if (!absl::StrContains(entries_[0].text, OneLine(group.cause).substr(0, 100))) continue;
    const auto own = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.rank == *group.rank && entry.test == entries_[0].test;
    });
    if (own == entries_.end()) continue;
    std::rotate(entries_.begin(), own, own + 1);
    return;
  }
}

void JobReport::CompareTests() {
  for (size_t rank = 1; rank < facts_.ranks.size(); ++rank) {
    const std::vector<TestRecord>& mine = facts_.ranks[rank].tests;
    const std::vector<TestRecord>& first = facts_.ranks[0].tests;
    for (size_t i = 0; i < std::max(mine.size(), first.size()); ++i) {
      const std::string a = i < first.size() ? first[i].FullName() : "nothing more";
      const std::string b = i < mine.size() ? mine[i].FullName() : "nothing more";
      if (a == b) continue;
      remarks_.push_back(absl::StrCat("the ranks ran different tests: as number ", i + 1,
                                      " rank 0 ran ", a, ", rank ", rank, " ran ", b));
      break;
    }
  }
}

int JobReport::ExitCode() const {
  if (ok_) return 0;
  const int code = facts_.result.ExitCode();
  return code == 0 ? 1 : code;
}

// Only what names its cause, as everything does that a group passes on, or what a group's record
// explains, is called a consequence: two ranks may fail of the same thing, and one that was ended
// may be what the first one waited for.
absl::string_view JobReport::Mark(const Entry& entry) const {
  const Entry& first = entries_[0];
  if (entry.rank == first.rank) return "";
  if (entry.ended_by_us) return "ended by muster";
  if (!first.fatal && entry.test != first.test) return "";
  const bool explained = entry.fatal && facts_.result.OnRecord(first.rank);
  return explained || NamesRank(entry.text, first.rank) ? "consequence" : "";
}

std::vector<std::string> JobReport::Lines() const {
  const std::string after = absl::StrCat(" after ", Seconds(facts_.result.duration));
  if (ok_) {
    return {absl::StrCat("[muster] ", facts_.name, " PASSED", after, ", ", facts_.ranks.size(),
                         facts_.ranks.size() == 1 ? " rank, " : " ranks, ",
                         facts_.ranks[0].tests.size(), " tests each")};
  }
  std::string head = absl::StrCat("[muster] ", facts_.name, " FAILED", after);
  if (facts_.result.timed_out) {
    absl::StrAppend(&head, ", the deadline of ", Seconds(facts_.deadline), " passed while ",
                    DescribeRanks(facts_.result.running_at_timeout), " still ran");
  } else if (facts_.result.interrupted_by != 0) {
    absl::StrAppend(&head, ", stopped by ", SignalName(facts_.result.interrupted_by));
  } else if (!entries_.empty()) {
    absl::StrAppend(&head, ", rank ", entries_[0].rank, " failed first");
    const std::vector<int>& late = facts_.result.running_at_timeout;
    const std::vector<int>& stragglers = facts_.result.stragglers;
    if (!late.empty()) {
      absl::StrAppend(&head, "; ", DescribeRanks(late), " still ran when the deadline of ",
                      Seconds(facts_.deadline), " passed");
    } else if (!stragglers.empty()) {
      absl::StrAppend(&head, "; ", DescribeRanks(stragglers), " still ran ",
                      Seconds(facts_.straggler_grace), " after a failed rank had ended");
    }
  }
  std::vector<std::string> lines = {head};
  const bool blame = !facts_.result.timed_out && facts_.result.interrupted_by == 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (i == kEntriesShown) {
      lines.push_back(absl::StrCat("  and ", entries_.size() - i, " more failures, in the logs"));
      break;
    }
    const Entry& entry = entries_[i];
    const absl::string_view mark = !blame ? "" : i == 0 ? "<- first failure" : Mark(entry);
    const std::string line = absl::StrCat("  rank ", entry.rank, "  ", entry.text);
    lines.push_back(mark.empty() ? line : absl::StrFormat("%-95s  %s", line, mark));
  }
  for (const std::string& remark : remarks_) lines.push_back(absl::StrCat("  ", remark));
  for (const std::string& leak : leaks_) lines.push_back(absl::StrCat("  ", leak));
  lines.push_back(
      absl::StrCat("  logs: ", absl::StrJoin(facts_.logs, " "), " in ", facts_.logs_in));
  return lines;
}

std::string JobReport::Xml() const {
  std::string suites;
  int tests = 1;
  int failures = ok_ ? 0 : 1;
  for (size_t rank = 0; rank < facts_.ranks.size(); ++rank) {
    const RankRecord& record = facts_.ranks[rank];
    std::string cases;
    int failed = 0;
    int skipped = 0;
    for (const TestRecord& test : record.tests) {
      const bool running = test.outcome == TestRecord::Outcome::kRunning;
      const absl::Duration ended =
          running ? facts_.started + facts_.result.ranks[rank].ended_after : test.ended;
      absl::StrAppend(&cases, "    <testcase name=\"", XmlEscape(test.name), "\" classname=\"",
                      XmlEscape(test.suite), "\" status=\"run\" time=\"",
                      XmlSeconds(ended - test.started), "\">");
      std::vector<std::string> messages;
      for (const TestFailure& failure : test.failures) {
        messages.push_back(failure.where.empty()
                               ? failure.message
                               : absl::StrCat(failure.where, "\n", failure.message));
      }
      if (running) {
        messages.push_back("the rank ended, or was ended, in this test");
        for (const Entry& entry : entries_) {
          if (entry.rank == static_cast<int>(rank) && entry.fatal) messages.back() = entry.text;
        }
      }
      for (const std::string& message : messages) {
        absl::StrAppend(&cases, "\n      <failure message=\"", XmlEscape(message), "\"></failure>");
      }
      if (test.outcome == TestRecord::Outcome::kSkipped) {
        absl::StrAppend(&cases, "<skipped/>");
        ++skipped;
      }
      absl::StrAppend(&cases, "</testcase>\n");
      failed += messages.empty() ? 0 : 1;
    }
    absl::StrAppend(&suites, "  <testsuite name=\"rank ", rank, "\" tests=\"", record.tests.size(),
                    "\" failures=\"", failed, "\" skipped=\"", skipped, "\" errors=\"0\" time=\"",
                    XmlSeconds(facts_.result.ranks[rank].ended_after), "\">\n", cases,
                    "  </testsuite>\n");
    tests += static_cast<int>(record.tests.size());
    failures += failed;
  }
  std::string verdict;
  if (!ok_) {
    verdict = absl::StrCat("<failure message=\"", XmlEscape(absl::StrJoin(Lines(), "\n")),
                           "\"></failure>");
  }
  return absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"",
                      XmlEscape(facts_.name), "\" tests=\"", tests, "\" failures=\"", failures,
                      "\" errors=\"0\" time=\"", XmlSeconds(facts_.result.duration),
                      "\">\n  <testsuite name=\"muster\" tests=\"1\" failures=\"", ok_ ? 0 : 1,
                      "\" errors=\"0\" time=\"", XmlSeconds(facts_.result.duration),
                      "\">\n    <testcase name=\"job\" classname=\"muster\" status=\"run\" time=\"",
                      XmlSeconds(facts_.result.duration), "\">", verdict,
                      "</testcase>\n  </testsuite>\n", suites, "</testsuites>\n");
}

}  // namespace testing
}  // namespace muster

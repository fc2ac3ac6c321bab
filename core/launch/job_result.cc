#include "muster/core/launch/job_result.h"

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "muster/core/platform/describe_ranks.h"

namespace muster {
namespace {

// So that a job of a thousand ranks still ends in lines that can be read.
constexpr size_t kRanksNamed = 16;

std::string Join(const std::vector<std::string>& items) {
  if (items.size() <= kRanksNamed) return absl::StrJoin(items, ", ");
  const std::vector<std::string> first(items.begin(), items.begin() + kRanksNamed);
  return absl::StrCat(absl::StrJoin(first, ", "), " and ", items.size() - kRanksNamed, " more");
}

std::string HowItEnded(const RankResult& rank) {
  if (!rank.exit.has_value()) return "is stuck in the kernel and survives SIGKILL";
  if (rank.signalled != 0) {
    return absl::StrCat("ended by muster (", SignalName(rank.signalled), ")");
  }
  return rank.exit->ToString();
}

}  // namespace

std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

std::string SignalName(int signal) {
  switch (signal) {
    case SIGALRM:
      return "SIGALRM";
    case SIGHUP:
      return "SIGHUP";
    case SIGINT:
      return "SIGINT";
    case SIGKILL:
      return "SIGKILL";
    case SIGPIPE:
      return "SIGPIPE";
    case SIGQUIT:
      return "SIGQUIT";
    case SIGTERM:
      return "SIGTERM";
    case SIGXCPU:
      return "SIGXCPU";
    default:
      return absl::StrCat("signal ", signal);
  }
}

std::string LeftProcess::ToString() const {
  return absl::StrCat("left behind, ", ended ? "ended now" : "still there after SIGKILL",
                      ": process ", pid, " (", command, ")",
                      rank.has_value() ? absl::StrCat(" of rank ", *rank) : "");
}

std::string FailedGroup::ToString() const {
  return absl::StrCat("the group \"", name, "\" had failed before: ", cause);
}

void JobResult::BlameByRecord() {
  if (!first_failed.has_value()) return;
  const RankResult& first = ranks[static_cast<size_t>(*first_failed)];
  const bool exited =
      first.exit.has_value() && first.exit->kind == RankExit::Kind::kExited && first.signalled == 0;
  if (!exited) return;
  for (const FailedGroup& group : failed_groups) {
    if (!group.rank.has_value() || static_cast<size_t>(*group.rank) >= ranks.size()) continue;
    const RankResult& blamed = ranks[static_cast<size_t>(*group.rank)];
    // Of the rank that ended first its exit status says enough; the group has a line of its own.
    if (group.rank == first_failed) return;
    const bool code_zero = blamed.exit.has_value() && blamed.exit->ok();
    if (code_zero && !group.by_its_end) return;
    first_failed = group.rank;
    first_reason = code_zero ? absl::StrCat(HowItEnded(blamed), " while its group \"", group.name,
                                            "\" was alive")
                             : absl::StrCat(group.cause, "; ", HowItEnded(blamed));
    return;
  }
}

bool JobResult::OnRecord(int rank) const {
  const auto blames = [rank](const FailedGroup& group) { return group.rank == rank; };
  return std::any_of(failed_groups.begin(), failed_groups.end(), blames) ||
         std::any_of(failed_groups_at_end.begin(), failed_groups_at_end.end(), blames);
}

bool JobResult::AllFailedAlike() const {
  const bool blamed = std::any_of(failed_groups.begin(), failed_groups.end(),
                                  [](const FailedGroup& group) { return group.rank.has_value(); });
  if (blamed || ranks.size() < 2) return false;
  return std::all_of(ranks.begin(), ranks.end(), [this](const RankResult& rank) {
    return rank.exit.has_value() && rank.signalled == 0 && rank.exit->ToString() == first_reason;
  });
}

int JobResult::ExitCode() const {
  if (interrupted_by != 0) return 128 + interrupted_by;
  if (timed_out) return 124;
  if (!output_error.empty()) return 1;
  if (!first_failed.has_value()) return 0;
  const std::optional<RankExit>& exit = ranks[static_cast<size_t>(*first_failed)].exit;
  // Lost by its store and yet ended well, or never ended: a failure all the same.
  return exit.has_value() && !exit->ok() ? exit->ExitCode() : 1;
}

std::vector<std::string> JobResult::Report() const {
  std::vector<std::string> lines;
  for (const LeftProcess& process : left) {
    lines.push_back(process.ToString());
  }
  if (!store_notice.empty()) lines.push_back(store_notice);
  if (!store_refused.empty()) lines.push_back(absl::StrCat("the store refused ", store_refused));
  if (ok()) return lines;

  std::vector<std::string> others;
  std::vector<std::string> caused;  // of them, by the first failure
  std::vector<std::string> later;   // the rest of them
  const bool on_record = first_failed.has_value() && OnRecord(*first_failed);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool first = first_failed.has_value() && static_cast<size_t>(*first_failed) == rank;
    const bool well = ranks[rank].exit.has_value() && ranks[rank].exit->ok();
    if (first || well) continue;
    others.push_back(absl::StrCat("rank ", rank, " ", HowItEnded(ranks[rank])));
    (on_record || ranks[rank].signalled != 0 ? caused : later).push_back(others.back());
  }
  if (interrupted_by != 0) {
    lines.push_back(absl::StrCat("stopped by ", SignalName(interrupted_by), " after ",
                                 Seconds(duration), others.empty() ? "" : ": ", Join(others)));
  } else if (!output_error.empty()) {
    lines.push_back(absl::StrCat("FAILED after ", Seconds(duration),
                                 ": cannot write the job's output: ", output_error));
    if (!others.empty()) lines.push_back(absl::StrCat("consequences of it: ", Join(others)));
  } else if (timed_out) {
    lines.push_back(
        absl::StrCat("FAILED after ", Seconds(duration), ": the timeout passed while ",
                     running_at_timeout.empty()
                         ? "its output waited for a reader"
                         : absl::StrCat(DescribeRanks(running_at_timeout), " still ran")));
    if (!others.empty()) lines.push_back(Join(others));
  } else {
    const bool alike = AllFailedAlike();
    const RankResult& first = ranks[static_cast<size_t>(*first_failed)];
    lines.push_back(
        absl::StrCat("FAILED after ", Seconds(duration), ": ",
                     alike ? absl::StrCat("all ", ranks.size(), " ranks failed alike, ") : "",
                     "rank ", *first_failed, " (pid ", first.pid,
                     alike ? ") ended first: " : ") failed first: ", first_reason));
    // The job's end may be much later: the others have their grace.
    const std::string ended_after = Seconds(first.ended_after);
    if (first.exit.has_value() && first.signalled == 0 && ended_after != Seconds(duration)) {
      absl::StrAppend(&lines.back(), " (after ", ended_after, ")");
    }
    for (const FailedGroup& group : failed_groups) lines.push_back(group.ToString());
    if (!caused.empty()) lines.push_back(absl::StrCat("consequences of it: ", Join(caused)));
    if (!later.empty() && !alike) lines.push_back(absl::StrCat("then: ", Join(later)));
  }
  return lines;
}

}  // namespace muster

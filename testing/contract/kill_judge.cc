#include "muster/testing/contract/kill_judge.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::testing {
namespace {

// Whose end a cause tells of. No pid: "another process took its place".
struct Blamed {
  int rank = 0;
  std::optional<pid_t> pid;
};

std::vector<Blamed> BlamedBy(const std::string& cause) {
  static const std::regex blame(
      R"re(rank (\d+)(?: \(host [^)]*, pid (\d+)\))? (?:was lost|left|exited|was told))re");
  std::vector<Blamed> all;
  for (std::sregex_iterator found(cause.begin(), cause.end(), blame), end; found != end; ++found) {
    Blamed one;
    if (!absl::SimpleAtoi((*found)[1].str(), &one.rank)) continue;
    pid_t pid = 0;
    if (absl::SimpleAtoi((*found)[2].str(), &pid)) one.pid = pid;
    all.push_back(one);
  }
  return all;
}

}  // namespace

void KillJudge::OnDeath(const Death& death) {
  first_[death.rank] = latest_[death.rank] = 0;
  deaths_.push_back(death);
}

void KillJudge::OnReady(int rank, int64_t generation) {
  if (first_[rank] == 0) first_[rank] = generation;
  latest_[rank] = generation;
}

void KillJudge::OnClosed(int rank, int64_t generation) {
  for (const Death& death : deaths_) {
    if (!death.group_was_ready || death.generation != generation || death.rank == rank) continue;
    wrong_.push_back(absl::StrCat("missed: on rank ", rank, " generation ", generation,
                                  " ended in good order, though rank ", death.rank, " (pid ",
                                  death.pid, ") was killed in it"));
  }
}

void KillJudge::OnFailed(int rank, int64_t generation, absl::string_view cause, absl::Time at) {
  const std::string where = absl::StrCat("rank ", rank, " in generation ", generation);
  const std::vector<Blamed> blamed = BlamedBy(std::string(cause));
  if (blamed.empty()) {
    wrong_.push_back(
        absl::StrCat("missed: ", where, " names no lost rank (", Deaths(), "): ", cause));
    return;
  }
  for (const Blamed& one : blamed) {
    const auto death = std::find_if(deaths_.begin(), deaths_.end(), [&](const Death& each) {
      return each.rank == one.rank && (!one.pid.has_value() || each.pid == *one.pid);
    });
    if (death == deaths_.end()) {
      wrong_.push_back(absl::StrCat("blamed wrongly: ", where, " (", Deaths(), "): ", cause));
    } else if (!Died(rank)) {
      delays_.push_back(at - death->at);
    }
  }
}

bool KillJudge::Died(int rank) const {
  return std::any_of(deaths_.begin(), deaths_.end(),
                     [rank](const Death& death) { return death.rank == rank; });
}

bool KillJudge::Recovered() const {
  // All have come as far as the first group of the youngest process, which all of them were in.
  return *std::min_element(first_.begin(), first_.end()) > 0 &&
         *std::min_element(latest_.begin(), latest_.end()) >=
             *std::max_element(first_.begin(), first_.end());
}

std::vector<std::string> KillJudge::EndRound() {
  deaths_.clear();
  return std::exchange(wrong_, {});
}

std::string KillJudge::Deaths() const {
  if (deaths_.empty()) return "nobody was killed";
  return absl::StrCat(absl::StrJoin(deaths_, ", ",
                                    [](std::string* out, const Death& death) {
                                      absl::StrAppend(out, "rank ", death.rank, " pid ", death.pid);
                                    }),
                      " killed");
}

}  // namespace muster::testing

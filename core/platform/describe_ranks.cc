#include "muster/core/platform/describe_ranks.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster {

std::string DescribeRanks(absl::Span<const int> ranks) {
  constexpr size_t kLeastRun = 4;
  constexpr size_t kNamed = 8;
  if (ranks.size() == 1) return absl::StrCat("rank ", ranks[0]);
  const bool run = ranks.size() >= kLeastRun &&
                   std::adjacent_find(ranks.begin(), ranks.end(), [](int rank, int next) {
                     return next != rank + 1;
                   }) == ranks.end();
  if (run) return absl::StrCat("ranks ", ranks.front(), " to ", ranks.back());
  const std::string named = absl::StrCat("ranks ", absl::StrJoin(ranks.subspan(0, kNamed), ", "));
  return ranks.size() <= kNamed ? named
                                : absl::StrCat(named, " and ", ranks.size() - kNamed, " more");
}

}  // namespace muster

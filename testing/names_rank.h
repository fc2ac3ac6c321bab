// Reads which ranks a message names; core/platform/describe_ranks.h is who writes them.
#ifndef MUSTER_TESTING_NAMES_RANK_H_
#define MUSTER_TESTING_NAMES_RANK_H_

#include "absl/strings/string_view.h"

namespace muster::testing {

// Whether `message` names `rank`: 3 in "rank 3", "ranks 0, 3 and 5" and "ranks 2 to 5"; neither in
// "rank 31" nor in "ranks 0, 1 and 3 more".
bool NamesRank(absl::string_view message, int rank);

}  // namespace muster::testing

#endif  // MUSTER_TESTING_NAMES_RANK_H_

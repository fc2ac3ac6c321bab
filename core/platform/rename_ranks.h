// Gives the ranks in a message other numbers.
//
// Who connects some ranks of a job, a backend, numbers them from 0, and so do its errors. All that
// a user reads speaks of ranks of the job.
//
//   RenameRanks("lost contact with rank 1: reset", {3, 5});  // "lost contact with rank 5: reset"
#ifndef MUSTER_CORE_PLATFORM_RENAME_RANKS_H_
#define MUSTER_CORE_PLATFORM_RENAME_RANKS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// `message` with `names[r]` for every rank r in "rank r", "ranks 0, 1 and 2" and "ranks 0 to 3"
// (which becomes a list). A number without a name stays, and so does what is not of one of these
// forms; without names everything does.
std::string RenameRanks(absl::string_view message, absl::Span<const int> names);

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_RENAME_RANKS_H_

// How the ranks of a group divide it: what each says, and what follows from it. Pure, and the same
// on every rank.
//
// Every rank gives a color and a key; those of one color are the ranks of a new group, ordered by
// key, and by their rank in the divided group where keys are equal (as MPI_Comm_split has it). The
// new group's name is the old one's with the number of the split and the color: the lowest number
// that no living child of the group has on any rank, so that a loop of splits needs one name.
#ifndef MUSTER_CORE_LIFECYCLE_SPLIT_H_
#define MUSTER_CORE_LIFECYCLE_SPLIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// What one rank says.
struct SplitChoice {
  int color = 0;  // negative: it joins none
  int key = 0;
  std::vector<int> taken;  // the numbers of the splits whose groups live here, of this group

  std::string Encode() const;
  // DataLoss for anything that Encode did not write.
  static absl::StatusOr<SplitChoice> Decode(absl::string_view text);
};

struct SplitDecision {
  int number = 1;
  std::vector<int> members;  // ranks of the divided group, in the new one's order; empty: none
};

// For the rank `rank` of the divided group. `choices`: by rank.
SplitDecision DecideSplit(absl::Span<const SplitChoice> choices, int rank);

// "train:split2.color1". No name that a user may give has a colon.
std::string SplitName(absl::string_view parent, int number, int color);
// The number of the split of `parent` that `name` comes from, as a child or as a child of one.
std::optional<int> SplitNumber(absl::string_view parent, absl::string_view name);

// Where the choices are gathered: "split/train/1".
std::string SplitKey(absl::string_view scope, int64_t generation);

}  // namespace muster

#endif  // MUSTER_CORE_LIFECYCLE_SPLIT_H_

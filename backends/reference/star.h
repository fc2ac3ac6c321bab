// What a collective means, without a socket: the bytes that all ranks gave, and what each takes
// away. Rank 0 calls it once it has everything. Plain loops; other backends are compared with this.
#ifndef MUSTER_BACKENDS_REFERENCE_STAR_H_
#define MUSTER_BACKENDS_REFERENCE_STAR_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/backends/reference/frame.h"

namespace muster::reference {

struct Answers {
  std::vector<std::string> storage;
  std::vector<absl::string_view> of_rank;  // into `storage`
};

// `given[r]` is BytesGiven(call, r, given.size()) bytes of rank r, aligned to an element. Of
// kAllToAllV it is in_counts and out_counts (an int64_t for each rank) and the elements after them;
// InvalidArgument where the counts of two ranks do not match.
absl::StatusOr<Answers> Answer(const Frame& call, const std::vector<absl::string_view>& given);

}  // namespace muster::reference

#endif  // MUSTER_BACKENDS_REFERENCE_STAR_H_

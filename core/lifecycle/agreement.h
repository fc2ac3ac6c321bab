// What the ranks tell each other when they meet, and what follows from it: pure, and the same on
// every rank.
#ifndef MUSTER_CORE_LIFECYCLE_AGREEMENT_H_
#define MUSTER_CORE_LIFECYCLE_AGREEMENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// What one rank brings to the meeting.
struct Introduction {
  uint64_t incarnation = 0;  // of its session
  std::string host;
  int64_t pid = 0;
  // The group's identity: field to value, as messages name them ("backend": "gloo"). Must be equal
  // everywhere.
  std::map<std::string, std::string> identity;
  // Backends that this rank could use, best first. What "auto" chooses from.
  std::vector<std::string> offers;
  int64_t known_generation = 0;  // the highest of this name that it has heard of
  // Not OK: this rank cannot take part (its backend is not linked in, ...). It comes all the same,
  // so that all ranks learn why.
  absl::Status refusal;

  std::string Encode() const;
  static absl::StatusOr<Introduction> Decode(absl::string_view text);
};

struct Agreement {
  int64_t generation = 0;
  std::string backend;                 // resolved: never "auto"
  std::vector<uint64_t> incarnations;  // by rank
};

// The name of the identity's field that says which backend is wanted.
inline constexpr absl::string_view kBackendField = "backend";

// A pure function of all introductions, by rank. Errors: a rank's refusal ("rank 2: no backend
// 'nccl' ..."), with its code; InvalidArgument when identities differ, naming each field and who
// asked for what; FailedPrecondition when "auto" finds no backend that all ranks offer.
// `members`: the rank of the job that each has, of whom the errors speak; empty: its own number.
absl::StatusOr<Agreement> Agree(absl::string_view name,
                                absl::Span<const Introduction> introductions,
                                absl::Span<const int> members = {});

}  // namespace muster

#endif  // MUSTER_CORE_LIFECYCLE_AGREEMENT_H_

// What the store says of a gather, for those who know of groups and not of gathers.
#ifndef MUSTER_CORE_LIFECYCLE_IN_WORDS_OF_GROUPS_H_
#define MUSTER_CORE_LIFECYCLE_IN_WORDS_OF_GROUPS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "muster/core/store/gather_error.h"

namespace muster::lifecycle_internal {

inline absl::Status Prefixed(absl::string_view prefix, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(prefix, status.message()));
}

// `error` of the gather of `key`: what the ranks that did not come to it did not do, and which
// timeout that was.
inline absl::Status InWordsOfGroups(const absl::Status& error, absl::string_view key,
                                    absl::string_view did_not) {
  absl::string_view message = error.message();
  if (!absl::ConsumeSuffix(&message, DidNotComeToGather(key))) return error;
  return absl::Status(error.code(), absl::StrCat(message, " ", did_not));
}

}  // namespace muster::lifecycle_internal

#endif  // MUSTER_CORE_LIFECYCLE_IN_WORDS_OF_GROUPS_H_

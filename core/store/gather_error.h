// How the error of a gather ends that not every rank came to. Whoever made the gather can tell its
// users in their own words what those ranks did not do.
//
//   rank 1 of 2 did not come to gather "meet/train" in time
#ifndef MUSTER_CORE_STORE_GATHER_ERROR_H_
#define MUSTER_CORE_STORE_GATHER_ERROR_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

// What stands behind "rank 1 of 2".
inline std::string DidNotComeToGather(absl::string_view key) {
  return absl::StrCat(" did not come to gather \"", key, "\" in time");
}

}  // namespace muster

#endif  // MUSTER_CORE_STORE_GATHER_ERROR_H_

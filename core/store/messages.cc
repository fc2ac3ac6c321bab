#include "muster/core/store/messages.h"

#include "absl/strings/str_cat.h"

namespace muster::store_internal {

absl::Status CheckKey(absl::string_view key) {
  if (!key.empty() && key.size() <= Store::kMaxKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a key of ", key.size(), " bytes: keys have 1 to ",
                                                 Store::kMaxKeyBytes, " bytes"));
}

absl::Status CheckValue(absl::string_view value) {
  if (value.size() <= Store::kMaxValueBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a value of ", value.size(), " bytes: values have at most ",
                   Store::kMaxValueBytes, " bytes, and larger data goes through a group"));
}

absl::Status CheckPrefix(absl::string_view prefix) {
  if (prefix.size() <= Store::kMaxKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a prefix of ", prefix.size(), " bytes: keys have at most ", Store::kMaxKeyBytes, " bytes"));
}

}  // namespace muster::store_internal

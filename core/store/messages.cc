#include "muster/core/store/messages.h"

#include <set>

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

absl::Status CheckMembers(size_t members) {
  if (members <= Store::kMaxMembers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a gather of ", members, " members: there may be ", Store::kMaxMembers));
}

absl::Status CheckGather(const Request& request, int rank, int world_size) {
  if (absl::Status key = CheckKey(request.key); !key.ok()) return key;
  if (absl::Status value = CheckValue(request.value); !value.ok()) return value;
  if (request.size < 1 || request.size > world_size || request.rank < 0 ||
      request.rank >= request.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("gather \"", request.key, "\": rank ", request.rank, " of ", request.size,
                     ": sizes are 1 to ", world_size, ", ranks 0 to size - 1"));
  }
  if (request.members.empty()) return absl::OkStatus();
  std::set<int> members;
  for (const int member : request.members) {
    if (member >= 0 && member < world_size) members.insert(member);
  }
  if (request.members.size() != members.size() ||
      members.size() != static_cast<size_t>(request.size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gather \"", request.key, "\" of ", request.size, " ranks: its ", request.members.size(),
        " members must be as many different ranks, 0 to ", world_size - 1));
  }
  if (request.members[request.rank] == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gather \"", request.key, "\": rank ", rank,
                                                 " comes in the place of rank ",
                                                 request.members[request.rank]));
}

}  // namespace muster::store_internal

#include "muster/core/store/store_server_statistics.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace muster {

std::string StoreServerStatistics::Refused() const {
  std::vector<std::string> parts;
  const auto add = [&parts](int64_t count, absl::string_view what, absl::string_view of) {
    if (count > 0) parts.push_back(absl::StrCat(count, " ", what, count == 1 ? " " : "s ", of));
  };
  add(other_user, "connection", "of another user");
  add(no_greeting, "connection", "that spoke another protocol");
  add(wrong_token, "connection", "that did not know the job's token");
  add(too_slow, "connection", "that did not introduce itself in time");
  add(crowded_out, "connection", "that made room, as too many did not introduce themselves");
  add(tampered, "session", "with a frame that its rank did not send");
  add(malformed, "session", "with a malformed frame");
  add(not_reading, "session", "that did not read what it was sent");
  add(over_limit, "request", "beyond a limit");
  return absl::StrJoin(parts, ", ");
}

}  // namespace muster

#include "muster/core/store/session_record.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

// "muster-session/1 <rank> <incarnation> <pid> <liveness> <host> <reason>", the last two quoted by
// CEscape, so that neither holds a quote or a line's end.
constexpr absl::string_view kMagic = "muster-session/1";

absl::string_view NameOf(SessionRecord::Liveness liveness) {
  switch (liveness) {
    case SessionRecord::Liveness::kLive:
      return "live";
    case SessionRecord::Liveness::kLeft:
      return "left";
    case SessionRecord::Liveness::kLost:
      return "lost";
  }
  return "live";
}

bool ParseLiveness(absl::string_view name, SessionRecord::Liveness* liveness) {
  for (const auto value : {SessionRecord::Liveness::kLive, SessionRecord::Liveness::kLeft,
                           SessionRecord::Liveness::kLost}) {
    if (NameOf(value) != name) continue;
    *liveness = value;
    return true;
  }
  return false;
}

// Takes `"..."` off the front of `text`.
bool TakeQuoted(absl::string_view* text, std::string* value) {
  if (text->empty() || text->front() != '"') return false;
  size_t end = 1;
  while (end < text->size() && (*text)[end] != '"') end += (*text)[end] == '\\' ? 2 : 1;
  if (end >= text->size()) return false;
  if (!absl::CUnescape(text->substr(1, end - 1), value)) return false;
  text->remove_prefix(end + 1);
  return true;
}

bool Parse(absl::string_view text, SessionRecord* record) {
  const std::vector<absl::string_view> fields = absl::StrSplit(text, absl::MaxSplits(' ', 5));
  if (fields.size() != 6 || fields[0] != kMagic) return false;
  if (!absl::SimpleAtoi(fields[1], &record->rank) || record->rank < 0) return false;
  if (!absl::SimpleAtoi(fields[2], &record->incarnation)) return false;
  if (!absl::SimpleAtoi(fields[3], &record->pid)) return false;
  if (!ParseLiveness(fields[4], &record->liveness)) return false;
  absl::string_view rest = fields[5];
  if (!TakeQuoted(&rest, &record->host)) return false;
  if (rest.empty() || rest.front() != ' ') return false;
  rest.remove_prefix(1);
  return TakeQuoted(&rest, &record->reason) && rest.empty();
}

}  // namespace

std::string SessionRecord::Who() const {
  if (host.empty() && pid == 0) return absl::StrCat("rank ", rank);
  return absl::StrCat("rank ", rank, " (host ", host, ", pid ", pid, ")");
}

std::string SessionRecord::WhatHappened() const {
  switch (liveness) {
    case Liveness::kLive:
      return absl::StrCat(Who(), " is live");
    case Liveness::kLeft:
      return absl::StrCat(Who(), " left", reason.empty() ? "" : ": ", reason);
    case Liveness::kLost:
      return absl::StrCat(Who(), " was lost", reason.empty() ? "" : ": ", reason);
  }
  return Who();
}

std::string SessionRecord::Encode() const {
  return absl::StrCat(kMagic, " ", rank, " ", incarnation, " ", pid, " ", NameOf(liveness), " \"",
                      absl::CEscape(host), "\" \"", absl::CEscape(reason), "\"");
}

absl::StatusOr<SessionRecord> SessionRecord::Decode(absl::string_view text) {
  SessionRecord record;
  if (!Parse(text, &record)) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a session record: \"", absl::CEscape(text.substr(0, 80)), "\""));
  }
  return record;
}

std::string SessionKey(int rank) { return absl::StrCat(kSessionKeyPrefix, rank); }

}  // namespace muster

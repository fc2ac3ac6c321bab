#include "muster/core/lifecycle/group_record.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "muster/core/lifecycle/json_fields.h"
#include "muster/core/lifecycle/process_end.h"
#include "muster/core/platform/split_mix64.h"
#include "nlohmann/json.hpp"

namespace muster {

using lifecycle_internal::Dump;
using lifecycle_internal::JsonFields;

namespace {
constexpr int64_t kMax = std::numeric_limits<int64_t>::max() - 1;  // one more can be counted
// A century stands for "for ever", and can be added to any time.
constexpr int64_t kMaxMilliseconds = int64_t{100} * 365 * 24 * 3600 * 1000;
}  // namespace

std::string CloseIntent::ClosedBy() const {
  return absl::StrCat("rank ", rank, " closed after #", sequence);
}

namespace {

std::optional<int> RankBlamedBy(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "rank ")) return std::nullopt;
  const size_t end = text.find_first_not_of("0123456789");
  int rank = 0;
  if (end == absl::string_view::npos || (text[end] != ':' && text[end] != ' ') ||
      !absl::SimpleAtoi(text.substr(0, end), &rank)) {
    return std::nullopt;
  }
  // "rank 1 and rank 2 ...", "rank 1 closed after #41 and rank 0 ...", "rank 1 could not connect
  // ...: rank 2 did not come", "rank 1: the ranks called different operations: ...": each of them
  // may have done what was right.
  for (const absl::string_view of_several :
       {" and ", " closed after #", " could not connect ", ": the ranks "}) {
    if (absl::StartsWith(text.substr(end), of_several)) return std::nullopt;
  }
  return rank;
}

}  // namespace

std::optional<int> GroupRecord::RankAtFault() const { return RankBlamedBy(cause.message()); }

bool GroupRecord::BlamesAnEnd() const {
  if (TellsOfAProcessEnd(cause.message())) return true;
  const std::optional<int> rank = RankAtFault();
  return rank.has_value() &&
         absl::StartsWith(cause.message(), absl::StrCat("rank ", *rank, " ", kDestroyedItsPool));
}

std::string GroupRecord::Encode() const {
  nlohmann::json json = {{"generation", generation}, {"incarnations", incarnations}};
  if (intent.has_value()) {
    json["intent"] = {
        {"number", intent->number},
        {"replace", intent->kind == CloseIntent::Kind::kReplace ? 1 : 0},
        {"rank", intent->rank},
        {"sequence", intent->sequence},
        {"timeout_ms", std::clamp<int64_t>(absl::ToInt64Milliseconds(
                                               absl::Ceil(intent->timeout, absl::Milliseconds(1))),
                                           0, kMaxMilliseconds)},
        {"wanted", lifecycle_internal::Bounded(intent->wanted)}};
  }
  if (!cause.ok()) json["cause"] = lifecycle_internal::StatusToJson(cause);
  return Dump(json);
}

absl::StatusOr<GroupRecord> GroupRecord::Decode(absl::string_view text) {
  JsonFields fields("group record", text);
  GroupRecord record;
  record.generation = fields.IntUpTo("generation", kMax);
  for (const nlohmann::json& incarnation : fields.Array("incarnations")) {
    if (!incarnation.is_number_unsigned()) {
      fields.Fail("an incarnation is not an unsigned integer");
      break;
    }
    record.incarnations.push_back(incarnation.get<uint64_t>());
  }
  if (fields.Has("intent")) {
    JsonFields nested("intent", fields.Object("intent"));
    CloseIntent intent;
    intent.number = nested.IntUpTo("number", kMax);
    intent.kind =
        nested.IntUpTo("replace", 1) == 1 ? CloseIntent::Kind::kReplace : CloseIntent::Kind::kClose;
    intent.rank = static_cast<int>(nested.IntUpTo("rank", std::numeric_limits<int>::max()));
    intent.sequence = nested.IntUpTo("sequence", kMax);
    intent.timeout = absl::Milliseconds(nested.IntUpTo("timeout_ms", kMaxMilliseconds));
    intent.wanted = nested.String("wanted");
    if (!nested.status().ok()) fields.Fail(nested.status().message());
    record.intent = std::move(intent);
  }
  if (fields.Has("cause")) record.cause = lifecycle_internal::StatusFromJson(fields, "cause");
  if (!fields.status().ok()) return fields.status();
  return record;
}

std::string CloseVote::Encode() const {
  return Dump({{"sequence", sequence}, {"holders", lifecycle_internal::Bounded(holders)}});
}

absl::StatusOr<CloseVote> CloseVote::Decode(absl::string_view text) {
  JsonFields fields("close vote", text);
  CloseVote vote;
  vote.sequence = fields.IntUpTo("sequence", kMax);
  vote.holders = fields.String("holders");
  if (!fields.status().ok()) return fields.status();
  return vote;
}

std::string GroupScope(absl::string_view name, absl::Span<const int> members) {
  if (members.empty()) return std::string(name);
  constexpr size_t kReadable = 64;
  std::string list = absl::StrJoin(members, ",");
  if (list.size() > kReadable) {  // keys are bounded, and worlds large
    uint64_t hash = members.size();
    for (const int member : members) hash = SplitMix64(hash ^ static_cast<uint64_t>(member)).Next();
    list = absl::StrCat(members.size(), "-", absl::Hex(hash));
  }
  return absl::StrCat(name, "@", list);
}

std::string GroupRecordKey(absl::string_view scope) { return absl::StrCat(kGroupKeyPrefix, scope); }
std::string MeetKey(absl::string_view scope) { return absl::StrCat("meet/", scope); }
std::string ConnectedKey(absl::string_view scope, int64_t generation) {
  return absl::StrCat("connected/", scope, "/", generation);
}
std::string VoteKey(absl::string_view scope, int64_t generation, int64_t intent_number) {
  return absl::StrCat("close/", scope, "/", generation, "/", intent_number);
}

}  // namespace muster

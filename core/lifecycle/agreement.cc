#include "muster/core/lifecycle/agreement.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "muster/core/lifecycle/json_fields.h"
#include "muster/core/platform/describe_ranks.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

using lifecycle_internal::Dump;
using lifecycle_internal::JsonFields;

constexpr absl::string_view kAuto = "auto";

std::string ValueOf(const Introduction& introduction, const std::string& field) {
  auto it = introduction.identity.find(field);
  return it == introduction.identity.end() ? "not set" : absl::StrCat("'", it->second, "'");
}

int InJob(absl::Span<const int> members, int rank) {
  return members.empty() ? rank : members[rank];
}

// "backend is 'gloo' on ranks 0, 1 and 'reference' on rank 2", or "" where all agree.
std::string Disagreement(const std::string& field, absl::Span<const Introduction> introductions,
                         absl::Span<const int> members) {
  std::map<std::string, std::vector<int>> ranks_by_value;
  for (int rank = 0; rank < static_cast<int>(introductions.size()); ++rank) {
    ranks_by_value[ValueOf(introductions[rank], field)].push_back(InJob(members, rank));
  }
  if (ranks_by_value.size() < 2) return "";
  std::vector<std::pair<std::vector<int>, std::string>> parts;  // in the order of ranks
  for (auto& [value, ranks] : ranks_by_value) {
    std::sort(ranks.begin(), ranks.end());
    parts.push_back({ranks, absl::StrCat(value, " on ", DescribeRanks(ranks))});
  }
  std::sort(parts.begin(), parts.end());
  return absl::StrCat(field, " is ",
                      absl::StrJoin(parts, " and ", [](std::string* out, const auto& part) {
                        absl::StrAppend(out, part.second);
                      }));
}

absl::Status CheckSameIdentity(absl::string_view name, absl::Span<const Introduction> introductions,
                               absl::Span<const int> members) {
  std::map<std::string, bool> fields;
  for (const Introduction& introduction : introductions) {
    for (const auto& [field, value] : introduction.identity) fields[field] = true;
  }
  std::vector<std::string> differences;
  for (const auto& [field, unused] : fields) {
    std::string difference = Disagreement(field, introductions, members);
    if (!difference.empty()) differences.push_back(std::move(difference));
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the ranks ask for different groups under the name '", name, "': ",
      absl::StrJoin(differences, "; "), "; ask for the same on every rank, or use two names"));
}

// The first rank's refusal, under its number: but a fault that every rank has is nobody's.
absl::Status CheckRefusals(absl::Span<const Introduction> introductions,
                           absl::Span<const int> members) {
  const bool same = std::all_of(
      introductions.begin(), introductions.end(),
      [&](const Introduction& other) { return other.refusal == introductions[0].refusal; });
  if (same) return introductions[0].refusal;
  for (int rank = 0; rank < static_cast<int>(introductions.size()); ++rank) {
    const absl::Status& refusal = introductions[rank].refusal;
    if (!refusal.ok()) {
      return absl::Status(refusal.code(),
                          absl::StrCat("rank ", InJob(members, rank), ": ", refusal.message()));
    }
  }
  return absl::OkStatus();
}

bool Offers(const Introduction& introduction, const std::string& backend) {
  return std::find(introduction.offers.begin(), introduction.offers.end(), backend) !=
         introduction.offers.end();
}

absl::StatusOr<std::string> ResolveBackend(absl::string_view name,
                                           absl::Span<const Introduction> introductions,
                                           absl::Span<const int> members) {
  const auto wanted = introductions[0].identity.find(std::string(kBackendField));
  if (wanted == introductions[0].identity.end()) {
    return absl::InternalError("an introduction names no backend");
  }
  if (wanted->second != kAuto) return wanted->second;
  for (const std::string& candidate : introductions[0].offers) {
    if (std::all_of(introductions.begin(), introductions.end(),
                    [&](const Introduction& other) { return Offers(other, candidate); })) {
      return candidate;
    }
  }
  std::vector<std::string> offers;
  for (int rank = 0; rank < static_cast<int>(introductions.size()); ++rank) {
    offers.push_back(absl::StrCat("rank ", InJob(members, rank), " offers ",
                                  introductions[rank].offers.empty()
                                      ? "none"
                                      : absl::StrJoin(introductions[rank].offers, ", ")));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "backend 'auto' of group '", name, "' finds none that every rank offers: ",
      absl::StrJoin(offers, "; "), "; link the same backends into the program of every rank"));
}

}  // namespace

std::string Introduction::Encode() const {
  nlohmann::json json = {
      {"incarnation", incarnation}, {"host", host},     {"pid", pid},
      {"identity", identity},       {"offers", offers}, {"known_generation", known_generation}};
  if (!refusal.ok()) json["refusal"] = lifecycle_internal::StatusToJson(refusal);
  return Dump(json);
}

absl::StatusOr<Introduction> Introduction::Decode(absl::string_view text) {
  JsonFields fields("introduction", text);
  Introduction introduction;
  introduction.incarnation = fields.Unsigned("incarnation");
  introduction.host = fields.String("host");
  introduction.pid = fields.Int("pid");
  const nlohmann::json identity = fields.Object("identity");
  for (auto it = identity.begin(); it != identity.end(); ++it) {
    if (it.value().is_string()) {
      introduction.identity[it.key()] = it.value().get<std::string>();
    } else {
      fields.Fail("a field of the identity is not a string");
    }
  }
  for (const nlohmann::json& offer : fields.Array("offers")) {
    if (offer.is_string()) {
      introduction.offers.push_back(offer.get<std::string>());
    } else {
      fields.Fail("an offer is not a string");
    }
  }
  introduction.known_generation =
      fields.IntUpTo("known_generation", std::numeric_limits<int64_t>::max() - 1);
  if (fields.Has("refusal")) {
    introduction.refusal = lifecycle_internal::StatusFromJson(fields, "refusal");
  }
  if (!fields.status().ok()) return fields.status();
  return introduction;
}

absl::StatusOr<Agreement> Agree(absl::string_view name,
                                absl::Span<const Introduction> introductions,
                                absl::Span<const int> members) {
  if (introductions.empty()) return absl::InternalError("a meeting of no ranks");
  if (absl::Status refusal = CheckRefusals(introductions, members); !refusal.ok()) return refusal;
  absl::Status same = CheckSameIdentity(name, introductions, members);
  if (!same.ok()) return same;
  absl::StatusOr<std::string> backend = ResolveBackend(name, introductions, members);
  if (!backend.ok()) return backend.status();
  Agreement agreement;
  agreement.backend = *std::move(backend);
  for (const Introduction& introduction : introductions) {
    agreement.generation = std::max(agreement.generation, introduction.known_generation);
    agreement.incarnations.push_back(introduction.incarnation);
  }
  ++agreement.generation;
  return agreement;
}

}  // namespace muster

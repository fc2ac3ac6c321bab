#include "muster/core/group/operation_census.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "muster/core/platform/describe_ranks.h"
#include "muster/core/store/gather_error.h"

namespace muster {

std::string OperationPlace::Encode() const { return absl::StrCat(issued, " ", inside); }

OperationPlace OperationPlace::Decode(absl::string_view text) {
  OperationPlace place;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(' ', 1));
  if (!absl::SimpleAtoi(parts.first, &place.issued)) place.issued = 0;
  place.inside = std::string(parts.second);
  return place;
}

std::string WhoHasNotEntered(int64_t number, const std::vector<OperationPlace>& places,
                             const std::vector<int>& members) {
  std::vector<int> missing;
  OperationPlace first;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].issued >= number) continue;
    if (missing.empty()) first = places[rank];
    missing.push_back(members.empty() ? static_cast<int>(rank) : members[rank]);
  }
  if (missing.empty()) return "every rank has entered it";
  const bool one = missing.size() == 1;
  return absl::StrCat(
      DescribeRanks(missing), one ? " has" : " have", " not entered it (",
      one ? "it" : absl::StrCat("rank ", missing[0]), " is ",
      first.inside.empty() ? absl::StrCat("after #", first.issued) : "in " + first.inside, ")");
}

void OperationCensus::Ask(Answer answer) {
  waiting_.push_back(std::move(answer));
  if (std::exchange(under_way_, true)) return;
  // The news of it comes to this rank, too. Of the session: it must not outlive the process.
  options_.store->Set(absl::StrCat(kLateKeyPrefix, options_.group), "", Lifetime::kSession,
                      options_.now() + options_.window,
                      [self = shared_from_this()](const absl::StatusOr<Revision>& asked) {
                        if (!asked.ok()) self->Conclude(asked.status());  // nobody was asked
                      });
}

void OperationCensus::OnAsked(Revision revision) {
  under_way_ = true;
  const std::string key = absl::StrCat("where/", options_.group, "/", revision);
  options_.store->GatherAmong(
      key, options_.among, options_.place().Encode(), options_.now() + options_.window,
      [self = shared_from_this(), key](absl::StatusOr<GatherResult> result) {
        if (self->waiting_.empty()) {
          self->under_way_ = false;
          return;
        }
        self->options_.store->Delete(absl::StrCat(kLateKeyPrefix, self->options_.group),
                                     self->options_.now() + self->options_.window,
                                     [](absl::Status) {});
        absl::StatusOr<std::vector<OperationPlace>> places = std::vector<OperationPlace>();
        if (result.ok()) {
          for (const std::string& value : result->values) {
            places->push_back(OperationPlace::Decode(value));
          }
        } else {
          absl::string_view message = result.status().message();
          places = absl::ConsumeSuffix(&message, DidNotComeToGather(key))
                       ? absl::DeadlineExceededError(absl::StrCat(message, " did not answer"))
                       : result.status();
        }
        self->Conclude(places);
      });
}

void OperationCensus::Conclude(const absl::StatusOr<std::vector<OperationPlace>>& places) {
  under_way_ = false;
  for (const Answer& answer : std::exchange(waiting_, {})) answer(places);
}

}  // namespace muster

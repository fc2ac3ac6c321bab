#include "muster/testing/test_barrier.h"

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/rendezvous/world.h"
#include "muster/testing/rank_events.h"

namespace muster {
namespace testing {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(2);

std::string WhereIs(const RankRecord& record) {
  if (record.running() != nullptr) return absl::StrCat("it is in ", record.running()->FullName());
  if (record.tests.empty()) return "it has begun none";
  return absl::StrCat("it has ended ", record.tests.back().FullName());
}

std::string DidNotCome(int rank) {
  return absl::StrCat("rank ", rank, " did not come to this test within ");
}

// This rank has waited for that one in a test that it has not begun: it hangs, or nearly.
bool WaitedInVain(const RankRecord& mine, const RankRecord& other, int rank) {
  for (size_t i = other.tests.size(); i + 1 < mine.tests.size(); ++i) {
    for (const TestFailure& failure : mine.tests[i].failures) {
      if (absl::StrContains(failure.message, DidNotCome(rank))) return true;
    }
  }
  return false;
}

}  // namespace

std::string EventsPath(absl::string_view folder, int rank) {
  return absl::StrCat(folder, "/rank", rank, ".events");
}

absl::Status WaitForTest(const Environment& environment, absl::Duration timeout) {
  const std::optional<std::string> own = environment.Get(kEventsVariable);
  if (!own.has_value()) return absl::OkStatus();
  const absl::StatusOr<World> world = WorldFromEnvironment(environment);
  if (!world.ok()) return world.status();
  const absl::string_view folder = absl::string_view(*own).substr(0, own->rfind('/'));
  const absl::StatusOr<RankRecord> mine = ReadRankEvents(*own);
  if (!mine.ok()) return mine.status();
  const size_t begun = mine->tests.size();

  const absl::Time deadline = MonotonicNow() + timeout;
  for (int rank = 0; rank < world->size; ++rank) {
    while (true) {
      const absl::StatusOr<RankRecord> other = ReadRankEvents(EventsPath(folder, rank));
      if (!other.ok()) return other.status();
      if (other->tests.size() >= begun) break;
      if (other->finished_with.has_value()) {
        return absl::AbortedError(absl::StrCat("rank ", rank, " has ended after ",
                                               other->tests.size(), " tests, this is number ",
                                               begun, ": every rank must run the same ones"));
      }
      const bool in_vain = WaitedInVain(*mine, *other, rank);
      if (in_vain || MonotonicNow() >= deadline) {
        return absl::DeadlineExceededError(absl::StrCat(
            DidNotCome(rank), in_vain ? "the time for one before" : absl::FormatDuration(timeout),
            ": ", WhereIs(*other)));
      }
      // Nothing tells a process that a file has grown but looking; the ranks are rarely apart.
      absl::SleepFor(kLook);
    }
  }
  return absl::OkStatus();
}

}  // namespace testing
}  // namespace muster

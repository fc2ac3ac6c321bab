#include "muster/testing/backend_conformance.h"

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "muster/core/collective/backend.h"
#include "muster/testing/backend_conformance_world.h"

namespace muster::testing {

absl::Span<const ConformanceCheck> ConformanceChecks() {
  static const auto* const all = [] {
    auto* checks = new std::vector<ConformanceCheck>;
    for (absl::Span<const ConformanceCheck> part :
         {conformance::ConnectChecks(), conformance::CollectiveChecks(), conformance::PeerChecks(),
          conformance::LifecycleChecks()}) {
      checks->insert(checks->end(), part.begin(), part.end());
    }
    return checks;
  }();
  return *all;
}

bool ChecksNothing(const absl::Status& result) {
  return result.GetPayload(conformance::kNothingToCheck).has_value();
}

absl::Status CheckCapabilities(const Backend& backend, absl::string_view expected) {
  const std::string offered = backend.capabilities().ToString();
  const auto names = [](absl::string_view list) {
    return std::set<std::string>(absl::StrSplit(list, absl::ByAnyChar(", "), absl::SkipEmpty()));
  };
  if (names(offered) == names(expected)) return absl::OkStatus();
  return conformance::Broken("the backend offers ", offered, ", expected was ", expected);
}

}  // namespace muster::testing
